"""Counts how much is read from logs to find batches: a few kilobytes per lookup in a log of any size.

An index says without a read where to begin. The walk from there to the batch is counted.
"""

from msgspec import Struct

from tailrace.runtime.files import File


class LookupReads(Struct):
    """The lookups and the bytes that they read, over all logs that share this object."""

    index_lookups: int = 0
    index_lookup_bytes: int = 0

    def begin(self, file: File) -> "CountedFile":
        """Counts a lookup, and returns the file with its reads counted."""
        self.index_lookups += 1
        return CountedFile(file, self)


class CountedFile:
    """A file whose reads are counted as reads of a lookup."""

    __slots__ = ("_file", "_reads")

    def __init__(self, file: File, reads: LookupReads) -> None:
        self._file = file
        self._reads = reads

    def read_at(self, position: int, count: int) -> bytes:
        data = self._file.read_at(position, count)
        self._reads.index_lookup_bytes += len(data)
        return data
