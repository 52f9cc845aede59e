import pytest

from tailrace.protocol.foreign_protocols import HTTP, TLS, ForeignProtocolError, foreign_protocol, refused_size

CLIENT_HELLO = bytes.fromhex("16030100")
ALERT = bytes.fromhex("15030300")


@pytest.mark.parametrize(
    ("first", "protocol"),
    [
        (CLIENT_HELLO, TLS),
        (ALERT, TLS),
        (b"GET ", HTTP),
        (b"POST", HTTP),
        (b"PRI ", HTTP),
        (b"SSH-", None),
        (b"\x16\x04\x00\x00", None),
        (b"\x00\x00\x00\x20", None),
        (b"\xff\xff\xff\xff", None),
    ],
)
def test_a_protocol_is_known_by_its_first_bytes(first: bytes, protocol: str | None) -> None:
    assert foreign_protocol(int.from_bytes(first, "big", signed=True)) == protocol


def test_a_size_that_is_not_allowed_names_the_protocol_if_it_is_known() -> None:
    tls = refused_size(int.from_bytes(CLIENT_HELLO, "big"), "a request", 100)
    assert isinstance(tls, ForeignProtocolError)
    assert (tls.protocol, "looks like TLS" in str(tls)) == (TLS, True)
    assert str(refused_size(101, "a request", 100)) == "a request has 101 bytes; at most 100 are allowed"
