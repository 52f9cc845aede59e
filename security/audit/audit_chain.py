"""The chain of hashes that joins the lines of an audit log.

A line is a JSON object. Its first field is its number, and its last field is the SHA-256 hash of the hash of the line
before and of everything else in the line. To change, remove or reorder lines, a person has to
compute all later hashes again, and the signatures in checkpoints then no longer fit.
"""

import hashlib
import json
import re
from collections.abc import Mapping

from msgspec import Struct

FIRST_HASH = "0" * 64
"""The hash before the first line of a log."""
_SUFFIX = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_SUFFIX_BYTES = len(b',"hash":"') + 64 + len(b'"}')
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class ChainState(Struct, frozen=True):
    """The end of a chain: the number and the hash of its last line."""

    number: int = 0
    """The number of the last line; 0 if there is none."""
    hash: str = FIRST_HASH


class ParsedLine(Struct, frozen=True):
    """A line that has the form of a line of an audit log."""

    number: int
    hash: str
    """The hash that the line states."""
    body: bytes
    """The part of the line that the hash covers."""
    fields: Mapping[str, object]


def chained(state: ChainState, fields: Mapping[str, object]) -> tuple[bytes, ChainState]:
    """Returns the line with these fields that follows the chain, with its end, and the chain with it."""
    number = state.number + 1
    body = _encode({"n": number, **fields}).encode(errors="backslashreplace")[:-1]
    digest = hash_of(state.hash, body)
    return b'%b,"hash":"%b"}\n' % (body, digest.encode()), ChainState(number, digest)


def hash_of(previous: str, body: bytes) -> str:
    """Returns the hash of a line, given the hash of the line before."""
    return hashlib.sha256(previous.encode() + body).hexdigest()


def parse_line(line: bytes) -> ParsedLine | None:
    """Parses a line without its end. Returns None if it does not have the form of a line of an audit log."""
    suffix = _SUFFIX.fullmatch(line[-_SUFFIX_BYTES:])
    if suffix is None:
        return None
    body = line[:-_SUFFIX_BYTES]
    try:
        fields = json.loads(body + b"}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or type(fields.get("n")) is not int:
        return None
    return ParsedLine(fields["n"], suffix[1].decode(), body, fields)
