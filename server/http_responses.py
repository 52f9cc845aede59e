"""Makes the few HTTP responses of a server: to scrapes, to health checks, and to clients on the wrong port."""

TEXT = b"text/plain; charset=utf-8"


def http_response(status: bytes, body: bytes, kind: bytes = TEXT) -> bytes:
    """Returns a whole response, after which the connection closes."""
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, kind, len(body)) + body
