"""Tests downloads from a real server with TLS on this machine."""

import http.server
import ssl
import threading
from collections.abc import Iterator

import pytest
import trustme

from tailrace.runtime.workers.hard_work import ThreadWorker
from tailrace.runtime.workers.https_download import download


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", f"https://localhost:{self.server.server_address[1]}/keys")
            self.end_headers()
            return
        self.send_response(200 if self.path == "/keys" else 404)
        self.end_headers()
        self.wfile.write(b"x" * 100)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server(authority: trustme.CA) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with http.server.ThreadingHTTPServer(("localhost", 0), _Handler) as serving:
        serving.socket = context.wrap_socket(serving.socket, server_side=True)
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"https://localhost:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_a_document_is_downloaded(server: str, authority: trustme.CA) -> None:
    assert await download(f"{server}/keys", 100, ThreadWorker(), trusting(authority)) == b"x" * 100


@pytest.mark.parametrize(("path", "bytes_max"), [("/keys", 99), ("/elsewhere", 100), ("/missing", 100)])
async def test_what_is_too_large_missing_or_elsewhere_is_refused(
    server: str, authority: trustme.CA, path: str, bytes_max: int
) -> None:
    with pytest.raises(OSError):
        await download(f"{server}{path}", bytes_max, ThreadWorker(), trusting(authority))


async def test_an_unknown_authority_and_other_protocols_are_refused(server: str) -> None:
    for url in (f"{server}/keys", "file:///etc/passwd", "http://localhost/"):
        with pytest.raises(OSError):
            await download(url, 100, ThreadWorker())
