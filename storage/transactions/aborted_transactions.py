"""Aborted transactions of a segment, and the `.aborted` file that lists them.

A transaction belongs to the segment that holds its marker. The file is not synced. The manifest has its checksum, and a
file that does not match is derived again from the segment.
"""

import struct
from collections.abc import Sequence

import crc32c
from msgspec import Struct

from tailrace.storage.manifest.manifest import AbortedFacts
from tailrace.storage.producers.producer_state import CompletedTransaction

ABORTED_MAGIC = b"TRAT\x00\x01"
_TRANSACTION = struct.Struct("<qqqq")
_CHECKSUM = struct.Struct("<I")
BEHIND_COPY = 2**63 - 1
"""Stands for the offset of a marker that is behind the end of a copy of a part of a log."""


class AbortedTransaction(Struct, frozen=True):
    """A transaction whose records no committed reader may see. All offsets are absolute."""

    producer_id: int
    first_offset: int
    """The first offset of the first batch."""
    last_offset: int
    """The offset of the marker, or BEHIND_COPY."""
    stable_offset: int = -1
    """The offset up to which every transaction was decided as of the marker. A transaction with a later marker begins
    there or later."""


def aborted_of(completed: Sequence[CompletedTransaction]) -> list[AbortedTransaction]:
    """Returns the aborted transactions among completed ones, in the order of their markers."""
    return [
        AbortedTransaction(each.producer_id, each.first_offset, each.last_offset, each.stable_offset)
        for each in completed
        if not each.is_commit
    ]


def encode_aborted(transactions: Sequence[AbortedTransaction]) -> bytes:
    """Returns the content of an `.aborted` file."""
    content = ABORTED_MAGIC + b"".join(
        _TRANSACTION.pack(each.producer_id, each.first_offset, each.last_offset, each.stable_offset)
        for each in transactions
    )
    return content + _CHECKSUM.pack(crc32c.crc32c(content))


def decode_aborted(data: bytes) -> list[AbortedTransaction] | None:
    """Reads an `.aborted` file. Returns None if it is damaged; then the segment has to be read instead."""
    content, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    entries = content[len(ABORTED_MAGIC) :]
    if not content.startswith(ABORTED_MAGIC) or checksum != _CHECKSUM.pack(crc32c.crc32c(content)):
        return None
    if len(entries) % _TRANSACTION.size:
        return None
    return [AbortedTransaction(*fields) for fields in _TRANSACTION.iter_unpack(entries)]


def facts_of(transactions: Sequence[AbortedTransaction]) -> AbortedFacts | None:
    """Returns what the manifest says about the aborted transactions of a segment; None if there are none."""
    if not transactions:
        return None
    checksum = crc32c.crc32c(encode_aborted(transactions)[: -_CHECKSUM.size])
    foretold = sum(each.last_offset == BEHIND_COPY for each in transactions)
    return AbortedFacts(len(transactions), checksum, min(each.first_offset for each in transactions), foretold)
