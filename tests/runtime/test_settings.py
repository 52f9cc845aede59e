import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.runtime.network import Address
from tailrace.runtime.settings import SettingsError, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:65535", Address("::1", 65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text, "--public") == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", ":9092", "[]:9092", "host:", "host:-1", "host:65536", "host:+1", "host:1٣", "host:" + "9" * 5000),
        *("my host:1", "http://host:1", "a,b:1", "\udcff:1", "h" * 256 + ":1"),
    ],
)
def test_an_invalid_address_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--public: .* is not HOST:PORT with a port from 0 to 65535$"):
        parse_address(text, "--public")


def test_port_0_is_no_address_to_connect_to() -> None:
    assert parse_address("host:1", "--sc", port_min=1) == Address("host", 1)
    with pytest.raises(SettingsError, match=r"^--sc: 'host:0' is not HOST:PORT with a port from 1 to 65535$"):
        parse_address("host:0", "--sc", port_min=1)


@given(st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True), st.integers(0, 65535))
def test_an_address_reads_back_what_it_writes(host: str, port: int) -> None:
    address = Address(host, port)
    assert parse_address(str(address), "here") == address


@given(st.text(alphabet=string.printable))
def test_any_text_is_an_address_or_a_sentence(text: str) -> None:
    try:
        address = parse_address(text, "here")
    except SettingsError:
        return
    assert 0 <= address.port <= 65535
    assert address.host
