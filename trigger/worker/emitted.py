"""Makes an output from what a handler emits, and checks its parts."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from tailrace.trigger.work import Output

Content = bytes | bytearray | memoryview | str | dict[str, object] | list[object] | None
"""What a handler may give as a key or a value. Text is sent as UTF-8, and dicts and lists as JSON."""
Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]

PARTITION_MAX = 2**31 - 1
TIMESTAMP_MAX = 2**63 - 1
OUTPUT_BYTES_MAX = 64 * 2**20
"""The largest output. A broker takes far smaller records by default."""


def make_output(
    topic: str,
    key: Content,
    value: Content,
    headers: Headers,
    partition: int | None,
    timestamp: datetime | int | None,
) -> Output:
    """Makes an output. Raises TypeError or ValueError, which names the wrong part."""
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"emit: the topic must be a name, not {topic!r}")
    if partition is not None and not _is_number(partition, PARTITION_MAX):
        raise ValueError(f"emit: the partition must be a number from 0 on, not {partition!r}")
    milliseconds = round(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp
    if milliseconds is not None and not _is_number(milliseconds, TIMESTAMP_MAX):
        raise ValueError(
            f"emit: the timestamp must be a datetime, or a whole number of milliseconds since 1970, not {timestamp!r}"
        )
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    output = Output(
        _sendable(topic),
        _bytes(key, "key"),
        _bytes(value, "value"),
        tuple([(_sendable(str(name)), _bytes(content, f"header {name!r}")) for name, content in pairs]),
        partition,
        milliseconds,
    )
    if size_of(output) > OUTPUT_BYTES_MAX:
        raise ValueError(f"emit: a record for {topic} has {size_of(output)} bytes, more than {OUTPUT_BYTES_MAX}")
    return output


def size_of(output: Output) -> int:
    """Returns how many bytes of content an output has."""
    size = len(output.key or b"") + len(output.value or b"")
    if output.headers:
        size += sum(len(name) + len(content or b"") for name, content in output.headers)
    return size


def _is_number(value: object, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


def _sendable(text: str) -> str:
    """Replaces what is not UTF-8, for example in the name of a header that came with a record."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")


def _bytes(content: Content, part: str) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    if isinstance(content, dict | list):
        return msgspec.json.encode(content)
    raise TypeError(f"emit: the {part} must be bytes, text, a dict, a list or None, not {type(content).__name__}")
