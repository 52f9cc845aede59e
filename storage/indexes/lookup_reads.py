"""How much is read from logs to find a batch in them: a few kilobytes each time, however large the log is.

The index says where to begin, without a read; what is counted is the walk from there.
"""

from msgspec import Struct

from tailrace.runtime.files import File


class LookupReads(Struct):
    """Of all logs that share this."""

    index_lookups: int = 0
    index_lookup_bytes: int = 0

    def begin(self, file: File) -> "CountedFile":
        """One more batch is looked for, there."""
        self.index_lookups += 1
        return CountedFile(file, self)


class CountedFile:
    __slots__ = ("_file", "_reads")

    def __init__(self, file: File, reads: LookupReads) -> None:
        self._file = file
        self._reads = reads

    def read_at(self, position: int, count: int) -> bytes:
        data = self._file.read_at(position, count)
        self._reads.index_lookup_bytes += len(data)
        return data
