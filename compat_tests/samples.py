"""The records that every client sends and must read back unchanged."""

from msgspec import Struct, field

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000


class Sample(Struct, frozen=True):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    timestamp_ms: int = START_MS


# It is smaller than a mebibyte, because max.message.bytes also counts the overhead of the batch and of the record.
NEARLY_ONE_MEBIBYTE = bytes(range(256)) * 4090

SAMPLES = [
    Sample(b"key", b"value"),
    Sample(None, b"no key"),
    Sample(b"no value", None),
    Sample(b"", b""),
    Sample(b"\x00\xff" * 300, bytes(range(256)), timestamp_ms=START_MS + 1),
    Sample(b"one header", b"v", [("trace", b"\x00\x01\x02")]),
    Sample(b"headers", b"v", [("a", b"1"), ("a", b"2"), ("naïve", b"")]),
    Sample(b"large", NEARLY_ONE_MEBIBYTE),
    Sample(b"out of order", b"earlier than the others", timestamp_ms=START_MS - 60_000),
]
