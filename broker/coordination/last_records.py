"""Reads the last record of each key from the log of a replica, which is all that a coordinator must replay."""

from collections.abc import Awaitable, Callable

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.batches.record_batch import BatchHeader, crc_of, iterate
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .folded_records import FoldedRecords

LOAD_BYTES = 1 << 18
"""How many bytes are read before other tasks run."""

Skip = Callable[[int, KafkaError], None]
"""Is told of a batch at this offset that cannot be read, and why."""


class LastRecords:
    """The last record of each key of a log.

    Earlier records do not count, as with compaction. Most of them are offsets that were committed again later, and are
    not decoded. Records of a transaction count if a marker has committed it.
    """

    def __init__(self, replica: Replica, repair: Callable[[Replica, int], Awaitable[object]], skip: Skip) -> None:
        self.records = FoldedRecords()
        self._replica = replica
        self._repair = repair
        self._skip = skip

    async def read(self) -> None:
        """Reads the whole log. Raises KafkaError if a batch is so corrupt that the next one cannot be found."""
        log = self._replica.log
        offset, end = log.log_start, log.log_end
        while offset < end:
            before, data = offset, self._read_intact(offset, end)
            if data is None:
                await self._repair(self._replica, offset)
                data = self._read(offset, end)
            elif not data:
                break
            for position, header in iterate(data):
                if offset < header.next_offset <= end:
                    offset = header.next_offset
                self._take(data[position : position + header.size], header)
            if offset <= before:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {before} is corrupt")
            await trio.lowlevel.checkpoint()

    def _read(self, start: int, end: int) -> memoryview:
        found = self._replica.log.read(start, LOAD_BYTES, end, at_least_one=True, passes_empty=True)
        return memoryview(b"" if found is None else found.read())

    def _read_intact(self, start: int, end: int) -> memoryview | None:
        """Returns the next batches between the two offsets, or None if one of them is corrupt."""
        try:
            batches = self._read(start, end)
            for position, header in iterate(batches):
                if not start < header.next_offset <= end or crc_of(batches, position, header.size) != header.crc:
                    return None
                start = header.next_offset
        except KafkaError:
            return None
        return batches

    def _take(self, batch: memoryview, header: BatchHeader) -> None:
        try:
            self.records.take(batch, header)
        except KafkaError as error:
            # Something may be missing for one key. Without all the others the damage would be larger.
            self._skip(header.base_offset, error)
