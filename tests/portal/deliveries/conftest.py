"""Vendors as programs are, as in the tests of runs; receivers as people have them: a web server and a mail server."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.portal.runs.conftest import _quick, alices, anonymous, bobs, client_of  # noqa: F401 - fixtures
from tests.portal.sign_in import mail_server


class _Listener(BaseHTTPRequestHandler):
    """Keeps what it hears and answers with the server's `status`."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append((self.path, self.headers, body))
        if self.server.trickles:
            self.go_on()
            return
        self.send_response(self.server.status, self.server.reason)
        self.send_header("Location", "http://169.254.169.254/latest/meta-data/")
        self.end_headers()

    def go_on(self):
        """Say `100 Continue`, after which a client reads on, until the client has gone."""
        self.connection.settimeout(0.02)
        while True:
            try:
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                if self.connection.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return

    def log_message(self, *_):
        pass


@pytest.fixture
def listener(settings):
    """A web server on this machine, which the site may reach here."""
    settings.WEBHOOKS_TO_PRIVATE_ADDRESSES = True
    with ThreadingHTTPServer(("127.0.0.1", 0), _Listener) as server:
        server.heard, server.status, server.reason, server.trickles = [], 204, None, False
        server.url = f"http://127.0.0.1:{server.server_port}/hook"
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def mailbox(settings):
    """The mails that a server has taken through which the site sends."""
    with mail_server() as (port, mails):
        settings.EMAIL_URL = f"smtp://127.0.0.1:{port}"
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        yield mails
