"""The partition to which a replay sends: appends batches, and finds those that it has already."""

from collections.abc import AsyncGenerator, Sequence

import trio
from msgspec.structs import replace

from tailrace.client.log_client import ACKS_OF_ALL, LogClient, ProducerName
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError, UnreachableError, unless_refused
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import BatchHeader, crc_of, iterate
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.protocol.error_codes import KafkaError

from .replay_line import LandedBatch, ReplayError

EMPTY_SECONDS_MAX = 60.0
"""How long a leader may send nothing although its log has more."""


class TargetLog:
    """One partition of the target, for one producer."""

    def __init__(self, logs: LogClient, partition: Partition, producer: ProducerName, compression: Compression) -> None:
        self.partition = partition
        self._logs = logs
        self._producer = producer
        self._compression = compression

    async def ends(self) -> LogEnds:
        """Returns the bounds of the committed part of the log. Raises RefusedError and UnreachableError."""
        return unless_refused((await self._logs.ends([self.partition]))[self.partition])

    async def all_landed(self, start: int) -> AsyncGenerator[list[LandedBatch], None]:
        """Yields the batches of this producer from an offset on, up to the end of the committed log as it is now.

        A leader sends batches whole, also if records at their beginning were deleted. These records are left out.
        Raises RefusedError, UnreachableError and ReplayError.
        """
        ends = await self.ends()
        start = max(ends.start, start)
        empty_since = trio.current_time()
        while start < ends.end:
            batches, reached = await self.landed(start)
            if reached > start:
                empty_since = trio.current_time()
            elif trio.current_time() > empty_since + EMPTY_SECONDS_MAX:
                raise UnreachableError(f"{self.partition} sends nothing from offset {start} on")
            start = reached
            yield [_without_deleted(each, ends.start) for each in batches]

    async def landed(self, start: int) -> tuple[list[LandedBatch], int]:
        """Fetches once from an offset on. Returns the batches of this producer, and the offset after what was fetched.

        Raises RefusedError, UnreachableError and ReplayError.
        """
        fetched = unless_refused((await self._logs.fetch({self.partition: start}))[self.partition])
        found = []
        try:
            for position, header in iterate(fetched.records):
                start = max(start, header.next_offset)
                if self._is_ours(header):
                    content = memoryview(fetched.records)[position : position + header.size]
                    if crc_of(content, 0, header.size) != header.crc:
                        raise ReplayError(f"the batch at offset {header.base_offset} of {self.partition} is corrupt")
                    found.append(
                        LandedBatch(
                            header.base_sequence, header.base_offset, header.last_offset_delta, read_records(content)
                        )
                    )
        except KafkaError as error:
            raise ReplayError(f"{self.partition} cannot be read at offset {start}: {error}") from None
        return found, start

    def _is_ours(self, header: BatchHeader) -> bool:
        is_producer = (header.producer_id, header.producer_epoch) == self._producer
        return is_producer and not header.is_control

    async def append(self, records: Sequence[Record], sequence: int) -> int | None:
        """Appends records as one batch, and returns the offset of the first.

        None means that the leader has the batch, and no longer knows where. Raises RefusedError and UnreachableError.
        """
        batch = build_batch(
            records,
            compression=self._compression,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
        )
        answer = (await self._logs.append({self.partition: batch}, ACKS_OF_ALL))[self.partition]
        if isinstance(answer, RefusedError):
            raise answer
        return answer if answer is not None and answer >= 0 else None


def _without_deleted(batch: LandedBatch, log_start: int) -> LandedBatch:
    if batch.base_offset >= log_start:
        return batch
    return replace(batch, records=[each for each in batch.records if each.offset >= log_start])
