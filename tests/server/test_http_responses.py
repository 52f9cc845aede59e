from tailrace.server.http_responses import http_response


def test_a_response_states_its_size_and_that_the_connection_closes() -> None:
    head, _, body = http_response(b"400 Bad Request", b"no\n").partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 400 Bad Request",
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: 3",
        b"Connection: close",
    ]
    assert body == b"no\n"
