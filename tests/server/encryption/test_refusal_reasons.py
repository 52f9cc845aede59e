import ssl

from tailrace.server.encryption.refusal_reasons import refusal_of


def test_errors_of_the_library_are_explained() -> None:
    assert refusal_of(ssl.SSLEOFError()) == "the peer closed the connection during the handshake"
    assert refusal_of(ConnectionResetError("reset")) == "reset"
