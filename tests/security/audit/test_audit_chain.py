"""The chain of hashes."""

import hashlib

import pytest

from tailrace.security.audit.audit_chain import FIRST_HASH, ChainState, chained, hash_of, parse_line


def test_each_line_has_the_hash_of_itself_and_of_the_line_before() -> None:
    first, state = chained(ChainState(), {"event": "change", "resource": 'a"\n\u00f6'})
    assert first.startswith('{"n":1,"event":"change","resource":"a\\"\\n\u00f6","hash":"'.encode())
    body = first[: -len(b',"hash":""}\n') - 64]
    assert state == ChainState(1, hashlib.sha256(FIRST_HASH.encode() + body).hexdigest())
    second, end = chained(state, {})
    parsed = parse_line(second[:-1])
    assert parsed is not None
    assert (parsed.number, parsed.hash) == (end.number, end.hash) == (2, hash_of(state.hash, b'{"n":2'))
    assert second.count(b"\n") == 1


def test_half_a_character_can_be_written() -> None:
    line, _ = chained(ChainState(), {"resource": "\ud800"})
    assert parse_line(line[:-1]) is not None


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b'{"n":1,"hash":"ab"}', b'x,"hash":"%b"}' % (b"a" * 64), b'[1,"hash":"%b"}' % (b"a" * 64)],
)
def test_other_lines_are_not_parsed(line: bytes) -> None:
    assert parse_line(line) is None
