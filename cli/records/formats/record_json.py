"""Records as lines of JSON, which `tailrace consume --output json` prints and `tailrace produce --json` reads.

A content (a key, a value, or the value of a header) keeps every byte on the way to JSON and back:

| Content | In JSON |
|---|---|
| none | `null` |
| a JSON object or array on one line | itself, byte for byte |
| other text in UTF-8 | a string |
| other bytes, and an object whose only field is `base64` | `{"base64": …}` |
"""

import base64
import json
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from tailrace.runtime.wall_clock import moment_ms

from .consumed_record import Consumed
from .produced_lines import Entry, Headers, LineError

_BASE64 = "base64"
_NOTHING = Raw(b"null")
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


def json_line(consumed: Consumed) -> str:
    """Formats a record as one line of JSON, without the line end."""
    partition, record = consumed.partition, consumed.record
    transaction = f', "transaction": {json.dumps(consumed.transaction)}' if consumed.shows_transaction else ""
    headers = ", ".join(
        f'{{"name": {_name_text(name)}, "value": {_content_text(value)}}}' for name, value in record.headers
    )
    return (
        f'{{"topic": {json.dumps(partition.topic)}, "partition": {partition.number}, "offset": {record.offset}, '
        f'"timestamp": {record.timestamp}, "key": {_content_text(record.key)}, '
        f'"value": {_content_text(record.value)}, "headers": [{headers}], '
        f'"committed": {"true" if consumed.is_committed else "false"}{transaction}}}'
    )


def json_value(text: str) -> dict[str, object] | list[object] | None:
    """Returns the JSON object or array that a text is; None if it is neither."""
    if text[:1] not in ("{", "[") or text[-1] not in "}]":
        return None
    try:
        value: dict[str, object] | list[object] = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return value


def _content_text(content: bytes | None) -> str:
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _in_base64(content)
    # A character that is not printable is escaped in a string, so that the line is safe on a terminal.
    if text[:1] in ("{", "[") and text.isprintable() and (value := json_value(text)) is not None:
        return _in_base64(content) if _stands_for_bytes(value) else text
    return json.dumps(text)


def _name_text(name: str) -> str:
    content = name.encode(errors="surrogateescape")
    try:
        return json.dumps(content.decode())
    except UnicodeDecodeError:
        return _in_base64(content)


def _in_base64(content: bytes) -> str:
    return f'{{"{_BASE64}": "{base64.b64encode(content).decode()}"}}'


def _stands_for_bytes(value: object) -> bool:
    """Whether a JSON value is an object with `base64` as its only field."""
    return isinstance(value, dict) and list(value) == [_BASE64]


# from JSON


class _JsonHeader(Struct, forbid_unknown_fields=True):
    name: Raw
    value: Raw = _NOTHING


class _JsonRecord(Struct, forbid_unknown_fields=True):
    value: Raw
    key: Raw = _NOTHING
    headers: list[_JsonHeader] = []
    timestamp: Annotated[int, Meta(ge=-1, le=_INT64_MAX)] | str | None = None
    partition: Annotated[int, Meta(ge=0, le=_INT32_MAX)] | None = None
    # What follows describes where the record was read, and says nothing about where it goes.
    topic: Raw = _NOTHING
    offset: Raw = _NOTHING
    committed: Raw = _NOTHING
    transaction: Raw = _NOTHING


_DECODER = msgspec.json.Decoder(_JsonRecord)


def json_entry(line: bytes, number: int) -> Entry:
    """Reads a record from a line of JSON; `number` is the number of the line. Raises LineError."""
    try:
        record = _DECODER.decode(line)
        headers: Headers = [(_name(each.name), _content(each.value, "a header")) for each in record.headers]
        key, value = _content(record.key, "key"), _content(record.value, "value")
        return Entry(key, value, headers, _timestamp(record.timestamp), record.partition)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise LineError(f"line {number}: {str(error) or 'it is nested too deeply'}") from error
    except _ContentError as error:
        raise LineError(f"line {number}: {error}") from error


class _ContentError(Exception):
    """A field has a wrong content; the message says how."""


def _content(raw: Raw, field: str) -> bytes | None:
    data = bytes(raw).strip()
    value = msgspec.json.decode(data)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict) or not _stands_for_bytes(value):
        return data
    try:
        return base64.b64decode(value[_BASE64], validate=True)
    except (ValueError, TypeError) as error:
        raise _ContentError(f"the base64 of {field} is malformed") from error


def _name(raw: Raw) -> str:
    if not isinstance(value := msgspec.json.decode(raw), str) and not _stands_for_bytes(value):
        raise _ContentError("the name of a header must be a string")
    return (_content(raw, "the name of a header") or b"").decode(errors="surrogateescape")


def _timestamp(given: int | str | None) -> int | None:
    if not isinstance(given, str):
        return given
    found = moment_ms(given)
    if found is None:
        raise _ContentError(f"timestamp: {given[:100]!r} is not a time such as 2026-01-31T12:00:00Z")
    return found
