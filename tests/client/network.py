"""A network that fails at a chosen moment."""

import contextlib
import socket
import threading
from typing import Self


class CuttingProxy:
    """Stands between client and site and cuts one connection; a context manager.

    It cuts the first connection that has carried `after` bytes to the site. With None it cuts the first whose answer
    comes back: then the site has done the work, and the client gets no answer.
    """

    def __init__(self, site_port: int, *, after: int | None) -> None:
        self.cuts = 0
        self._site_port = site_port
        self._after = after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                site = socket.create_connection(("127.0.0.1", self._site_port))
                for carry in (self._ask, self._answer):
                    threading.Thread(target=carry, args=(client, site), daemon=True).start()

    def _ask(self, client: socket.socket, site: socket.socket) -> None:
        carried = 0
        with contextlib.suppress(OSError):
            while piece := client.recv(4096):
                carried += len(piece)
                if self._after is not None and carried > self._after and not self.cuts:
                    return self._cut(client, site)
                site.sendall(piece)
            site.shutdown(socket.SHUT_WR)
        return None

    def _answer(self, client: socket.socket, site: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := site.recv(4096):
                if self._after is None and not self.cuts:
                    return self._cut(client, site)
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
        return None

    def _cut(self, *ends: socket.socket) -> None:
        self.cuts += 1
        for end in ends:
            end.shutdown(socket.SHUT_RDWR)
