"""Real servers that somebody who signs in meets: an OpenID provider, and a mail server that keeps what it is given."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import Any

import httpx
from aiosmtpd.controller import Controller
from django.test import Client

from tests.servers import free_ports

START_SECONDS = 60


@contextmanager
def openid_provider(*people: str) -> Iterator[str]:
    """A provider in a process of its own, where each of `people` (JSON of their claims) has an account; its address."""
    (port,) = free_ports(1)
    known = [argument for claims in people for argument in ("--user-claims", claims)]
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), *known]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_for(f"{address}/.well-known/openid-configuration", process)
            yield address
        finally:
            process.terminate()
            process.wait(20)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            httpx.get(address).raise_for_status()
        except httpx.HTTPError:
            assert process.poll() is None, "the OpenID provider did not start"
            assert time.monotonic() < deadline, "the OpenID provider does not answer"
            time.sleep(0.1)
        else:
            return


def there_and_back(
    client: Client,
    start: str,
    *,
    subject: str,
    action: str = "authorize",
    before_back: Callable[[], None] = lambda: None,
) -> Any:
    """Sign in at the provider as `subject`, beginning with the button at `start`; the site's answer to who returns."""
    page = client.post(start).content.decode()
    address = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
    assert address, page
    asked = address[1].replace("&amp;", "&")
    answer = httpx.post(asked, data={"sub": subject, "action": action})
    assert answer.status_code in (302, 303), answer.text
    back = httpx.URL(answer.headers["Location"])
    assert back.host == "testserver"
    before_back()
    return client.get(back.raw_path.decode())


class _Kept:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        import email
        from email import policy

        self.mails.append(email.message_from_bytes(envelope.content, policy=policy.default))
        return "250 kept"


@contextmanager
def mail_server() -> Iterator[tuple[int, list[EmailMessage]]]:
    """An SMTP server in a thread of its own: its port, and the mails that it has taken."""
    (port,) = free_ports(1)
    kept = _Kept()
    server = Controller(kept, hostname="127.0.0.1", port=port)
    server.start()
    try:
        yield port, kept.mails
    finally:
        server.stop()
