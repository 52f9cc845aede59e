"""Formats consumed records as lines for people, and as documents for programs."""

import base64

from tailrace.cli.output.printing import plain, time_text

from .consume_progress import Consumed

_UNCOMMITTED = "uncommitted"


def line_text(consumed: Consumed) -> str:
    """Formats a record as a line, with a dash for no key and `null` for no value."""
    record = consumed.record
    cells = [
        str(consumed.partition),
        str(record.offset),
        time_text(record.timestamp),
        "-" if record.key is None else _quoted(record.key),
        "null" if record.value is None else _quoted(record.value),
        *(f"{plain(name)}={'null' if value is None else _quoted(value)}" for name, value in record.headers),
    ]
    return "  ".join(cells if consumed.is_committed else [*cells, _UNCOMMITTED])


def record_document(consumed: Consumed) -> dict[str, object]:
    """Makes a document of a record; bytes that are not UTF-8 become `{"base64": …}`."""
    record = consumed.record
    return {
        "topic": consumed.partition.topic,
        "partition": consumed.partition.number,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _content(record.key),
        "value": _content(record.value),
        "headers": [{"name": _name(name), "value": _content(value)} for name, value in record.headers],
        "committed": consumed.is_committed,
    }


def _quoted(data: bytes) -> str:
    text = plain(data.decode(errors="backslashreplace"))
    return '"' + text.replace('"', '\\"') + '"'


def _content(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _name(name: str) -> str:
    """Escapes the bytes of a name that are not UTF-8: they are surrogates, which documents cannot contain."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
