"""Formats consumed records as lines for people and as documents for YAML.

Every function is fast enough for a log of many gigabytes: nothing looks at a record character by character.
"""

import re
from functools import lru_cache

from tailrace.cli.output.printing import content_document, plain, time_text

from .consumed_record import Consumed
from .record_json import json_value

_UNCOMMITTED = "uncommitted"
_LINE_ENDS = re.compile(r"\s*[\r\n]\s*")
_QUOTES_SWAPPED = bytes.maketrans(b"'\"", b"\"'")
_time_text = lru_cache(maxsize=1000)(time_text)


def line_text(consumed: Consumed) -> str:
    """Formats a record as a line, with a dash for no key and `null` for no value."""
    partition, record = consumed.partition, consumed.record
    key = "-" if record.key is None else _shown(record.key)
    value = "null" if record.value is None else _shown(record.value)
    line = f"{partition}  {record.offset}  {_time_text(record.timestamp)}  {key}  {value}"
    for name, content in record.headers:
        line += f"  {plain(name)}={'null' if content is None else _shown(content)}"
    if consumed.shows_transaction and consumed.transaction is not None:
        line += f"  transaction={consumed.transaction}"
    return line if consumed.is_committed else f"{line}  {_UNCOMMITTED}"


def record_document(consumed: Consumed) -> dict[str, object]:
    """Makes a document of a record; bytes that are not UTF-8 become `{"base64": …}`."""
    record = consumed.record
    transaction = {"transaction": consumed.transaction} if consumed.shows_transaction else {}
    return {
        "topic": consumed.partition.topic,
        "partition": consumed.partition.number,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": content_document(record.key),
        "value": content_document(record.value),
        "headers": [{"name": _name(name), "value": content_document(value)} for name, value in record.headers],
        "committed": consumed.is_committed,
        **transaction,
    }


def _shown(data: bytes) -> str:
    """Shows JSON objects and arrays as they are, on one line, and everything else in quotes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _quoted_bytes(data)
    if text[:1] in ("{", "[") and json_value(text) is not None:
        # Inside strings JSON escapes line ends, so those that are left lie between tokens.
        return plain(_LINE_ENDS.sub(" ", text) if "\n" in text or "\r" in text else text)
    return '"' + plain(text).replace('"', '\\"') + '"'


def _quoted_bytes(data: bytes) -> str:
    """Quotes bytes that are not text, each as ASCII or as `\\x1f`."""
    # Python's representation of bytes with both kinds of quotes escapes the single ones, in a tenth of the time that a
    # regular expression takes. So the kinds are swapped before and after.
    text = repr(data.translate(_QUOTES_SWAPPED) + b"'\"")[2:-4]
    return f'"{text.encode().translate(_QUOTES_SWAPPED).decode()}"'


def _name(name: str) -> str:
    """Escapes the bytes of a name that are not UTF-8: they are surrogates, which documents cannot contain."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
