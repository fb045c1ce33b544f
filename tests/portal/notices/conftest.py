"""Receivers as people have them: a web server that keeps what it hears, and a mail server."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from django.core.cache import cache

from tests.portal.sign_in import mail_server


@pytest.fixture(autouse=True)
def _quick(settings):
    cache.clear()
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


class _Listener(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append((self.path, self.headers, body))
        self.send_response(self.server.status)
        self.send_header("Location", "http://169.254.169.254/latest/meta-data/")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def listener(settings):
    """A web server on this machine, which the site may reach here."""
    settings.WEBHOOKS_TO_PRIVATE_ADDRESSES = True
    with ThreadingHTTPServer(("127.0.0.1", 0), _Listener) as server:
        server.heard, server.status = [], 200
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
