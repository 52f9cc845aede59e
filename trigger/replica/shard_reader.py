"""Reads committed records of one shard: fetches whole batches from its leader, and follows the leader when it moves.

A shard has a connection of its own, because a read without new records waits at the leader.
"""

from collections.abc import Sequence
from uuid import UUID

import trio
from msgspec import Struct

from tailrace.client.log_client import READ_COMMITTED
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, UnreachableError, error_name, reason_of, unless_refused
from tailrace.client.spu_client import SpuClient
from tailrace.protocol.codec.primitives import Records
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.trigger.work import Shard

READ_BYTES_MAX = 1024 * 1024
"""The largest size of one read. A larger batch is still read whole."""
READ_WAIT_SECONDS = 5.0
"""How long the leader may wait for new records. An idle shard costs one request in this time."""
SILENCE_SECONDS_MAX = 3.0
"""How long a leader may send nothing after its time to wait is over. Then the reader looks for another leader."""
PAUSE_SECONDS = 1.0
_NAMED_FETCHES_MAX = 12
"""The last version of Fetch that names topics."""


class OutOfRangeError(Exception):
    """The log does not have the offset: it was truncated, or the topic was made anew."""


class Reading(Struct, frozen=True):
    """What one read has found."""

    records: bytes
    """Whole batches, perhaps with a part of another one at the end; empty if there is no new record."""
    end: int
    """The last stable offset: records from there on may belong to an open transaction, and are not read."""
    aborted: Sequence[tuple[int, int]] = ()
    """The aborted transactions in the records: the producer id and the first offset of each."""


class ShardReader:
    """Reads one shard from its leader."""

    def __init__(self, spus: SpuClient, shard: Shard, chance: Chance, logger: FilteringBoundLogger) -> None:
        """Takes an `SpuClient` that nothing else uses."""
        self._spus = spus
        self._shard = shard
        self._chance = chance
        self._logger = logger
        self._leader: int | None = None
        self._topic_id: UUID | None = None
        self.problem = ""
        """Why the shard cannot be read at the moment; empty if it can be read."""
        self.held_back = 0
        """How many offsets wait for the end of an open transaction, as far as the last read knows."""

    async def read(
        self, offset: int, bytes_max: int = READ_BYTES_MAX, wait_seconds: float = READ_WAIT_SECONDS
    ) -> Reading:
        """Reads from an offset on, and waits at the leader for a record. Retries until the shard has been read.

        The caller confirms that the result makes sense. Raises OutOfRangeError.
        """
        failures = 0
        while True:
            try:
                found = await self._fetch(offset, min(bytes_max, READ_BYTES_MAX), wait_seconds)
            except (UnreachableError, RefusedError) as error:
                problem = reason_of(error)
            else:
                if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise OutOfRangeError(f"shard {self._shard} has no offset {offset}")
                if not found.error_code:
                    return self._reading(found)
                problem = error_name(found.error_code)
            self._leader = None
            failures += 1
            if failures > 1:  # an election takes one more attempt, and is no problem
                self._is_unreadable(problem)
            await trio.sleep(spread_pause_seconds(failures, self._chance))

    def _reading(self, found: PartitionData) -> Reading:
        end = found.last_stable_offset if found.last_stable_offset >= 0 else found.high_watermark
        self.held_back = max(0, found.high_watermark - end)
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
        return Reading(_bytes(found.records), end, aborted)

    async def pause_after(self, problem: str) -> None:
        """Reports a problem with what was read, and pauses before it is read again, perhaps from another leader."""
        self._leader = None
        self._is_unreadable(problem)
        await trio.sleep(PAUSE_SECONDS)

    def confirm(self) -> None:
        """Clears the problem of the shard, because what was read makes sense."""
        if self.problem:
            self._logger.info("shard_readable_again", topic=self._shard.topic, shard=self._shard.number)
            self.problem = ""

    def close(self) -> None:
        """Closes the connections."""
        self._spus.close()

    async def _fetch(self, offset: int, bytes_max: int, wait_seconds: float) -> PartitionData:
        if self._leader is None:
            partition = Partition(*self._shard)
            self._leader = unless_refused((await self._spus.leaders([partition]))[partition])
            before, self._topic_id = self._topic_id, self._spus.topic_ids.get(self._shard.topic)
            if before not in (None, self._topic_id):
                raise OutOfRangeError(f"the topic of shard {self._shard} was made anew")
        wanted = FetchPartition(self._shard.number, fetch_offset=offset, partition_max_bytes=bytes_max)
        request = FetchRequest(
            max_wait_ms=round(wait_seconds * 1000),
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(self._shard.topic, partitions=[wanted])],
        )
        leader = self._leader
        with trio.move_on_after(wait_seconds + SILENCE_SECONDS_MAX):
            response = await self._spus.ask(leader, request, _NAMED_FETCHES_MAX)
            if response.error_code:
                raise RefusedError(error_name(response.error_code), response.error_code)
            found: PartitionData = response.responses[0].partitions[0]
            return found
        raise UnreachableError(f"SPU {leader} does not respond")

    def _is_unreadable(self, problem: str) -> None:
        if problem != self.problem:
            self._logger.warning("shard_unreadable", topic=self._shard.topic, shard=self._shard.number, reason=problem)
            self.problem = problem


def _bytes(records: Records | None) -> bytes:
    """Returns a copy of fetched records, which outlives the buffer of the connection."""
    if records is None:
        return b""
    assert isinstance(records, bytes | memoryview), "decoded records are in memory"
    return bytes(records)
