import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.runtime.network import Address
from tailrace.runtime.settings import SettingsError, default_data_directory, merge, parse_address, read_file

NAMES = frozenset({"data", "public", "log-level"})


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
    ["", "host", ":9092", "[]:9092", "host:", "host:-1", "host:65536", "host:+1", "host:1٣", "host:" + "9" * 5000],
)
def test_what_is_no_address_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--public: .* is not HOST:PORT with a port from 0 to 65535$"):
        parse_address(text, "--public")


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


def test_a_file_is_toml() -> None:
    assert read_file("a.toml", b'public = "h:1"\n[broker]\n"num.partitions" = 3\n') == {
        "public": "h:1",
        "broker": {"num.partitions": 3},
    }


@pytest.mark.parametrize("text", [b"public = ", b"\xff", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_named(text: bytes) -> None:
    with pytest.raises(SettingsError, match=r"^a\.toml: not a TOML file: "):
        read_file("a.toml", text)


def test_the_last_source_wins() -> None:
    file = {"data": "file", "public": "file", "log-level": "file"}
    environment = {"TAILRACE_PUBLIC": "environment", "TAILRACE_LOG_LEVEL": "environment", "OTHER": "x"}
    assert merge(NAMES, file, environment, {"log-level": "flag", "public": None}) == {
        "data": "file",
        "public": "environment",
        "log-level": "flag",
    }
    assert merge(NAMES, {}, {}, {}) == {}


def test_an_unknown_name_in_the_file_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="no setting 'publik'; there are: data, log-level, public"):
        merge(NAMES, {"publik": "h:1", "zzz": 1}, {}, {})


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.local/share/tailrace"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, "/data/tailrace"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": ""}, "/home/ada/.local/share/tailrace"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}, "/home/ada/.local/share/tailrace"),
    ],
)
def test_data_lives_where_the_user_keeps_data(environment: dict[str, str], directory: str) -> None:
    assert default_data_directory(environment) == directory
