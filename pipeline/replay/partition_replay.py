"""Replays one partition: reads the source, sends batches, waits for the pace, and writes the map.

It begins by looking for records of the replay in the target that are in no part of the map. It does so again whenever
it is uncertain what the target has: after a refused sequence number, and after a long silence, because a process that
was frozen may have been replaced meanwhile.
"""

from contextlib import aclosing
from math import inf

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.client.spu_client import PASSING
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.wall_clock import WallClock

from .map_parts import PartWriter
from .offset_map import PartState
from .record_stream import RecordStream
from .replay_line import USUAL_LIMITS, BatchLimits, ReplayError, ReplayLine
from .replay_pace import ReplayPace
from .target_log import TargetLog

PATIENCE_SECONDS = 60.0
"""How long a leader may be unreachable, or refuse a sequence number, before the replay gives up."""
_PAUSE_SECONDS = 0.2
SILENCE_SECONDS_MAX = 30.0
"""After this time without a response, the target is looked at again before the next batch."""
PART_SECONDS = 5.0
"""How often a part of the map is written. Until then the target alone knows what was sent."""
_UNCERTAIN = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_TRANSIENT = PASSING | {ErrorCode.KAFKA_STORAGE_ERROR}


class SendingCounts(Struct):
    """What this attempt has done."""

    sent: int = 0
    """Records that it has sent."""
    found: int = 0
    """Records that an earlier attempt had sent, and that were in no part of the map."""


class PartitionReplay:
    """The replay of one partition, from where its map ends."""

    def __init__(
        self,
        target: TargetLog,
        source: RecordStream,
        end: int,
        writer: PartWriter,
        wall_clock: WallClock,
        pace: ReplayPace | None = None,
        limits: BatchLimits = USUAL_LIMITS,
    ) -> None:
        self._target = target
        self._source = source
        self._end = end
        """The offset in the source before which the replay ends."""
        self._writer = writer
        self._wall_clock = wall_clock
        self._pace = pace
        if pace is not None:
            limits = replace(limits, window_ms=pace.window_ms)
        self._line = ReplayLine(str(target.partition), writer.state.position, limits)
        self._heard_at = -inf
        """When the target last responded."""
        self._written_at = -inf
        self.counts = SendingCounts()

    async def run(self) -> None:
        """Sends everything that the target does not have. Raises ReplayError, RefusedError and UnreachableError."""
        line = self._line
        self._written_at = trio.current_time()
        await self._patiently_catch_up()
        while True:
            while not line.is_full and (records := self._source.next()) is not None:
                line.add(records)
            if not line.has_batch:
                break
            await self._wait_until_due()
            await self._send()
            if self._writer.is_full or trio.current_time() >= self._written_at + PART_SECONDS:
                self._write_part(PartState(line.position))
        end = line.position.at_end(self._end, self._source.read)
        self._write_part(PartState(end, is_end=True))

    # the target

    async def _patiently_catch_up(self) -> None:
        """Learns what the target has. Retries while its leader is unreachable."""
        give_up_at = trio.current_time() + PATIENCE_SECONDS
        while True:
            try:
                await self._catch_up()
                return
            except (UnreachableError, RefusedError) as error:
                if not _is_passing(error) or trio.current_time() >= give_up_at:
                    raise
            await trio.sleep(_PAUSE_SECONDS)

    async def _catch_up(self) -> None:
        """Reads the target from the position on, and maps the records of the replay that it has."""
        line, before = self._line, self._line.position.ordinal
        async with aclosing(self._target.all_landed(line.position.target)) as landed:
            async for batches in landed:
                line.on_landed(batches)
                while line.wants_source and (records := self._source.next()) is not None:
                    line.add(records)
                line.check_end()
                self._writer.add(line.take_ranges())
        self._heard_at = trio.current_time()
        self.counts.found += line.position.ordinal - before

    async def _send(self) -> None:
        """Sends the batch until the target has it. This and `_write_part` are what a transaction would join: the
        progress would then be a record of the same transaction."""
        line = self._line
        first, give_up_at = line.position.ordinal, inf
        while line.position.ordinal == first and (batch := line.batch()) is not None:
            if trio.current_time() > self._heard_at + SILENCE_SECONDS_MAX:
                await self._patiently_catch_up()
                continue
            try:
                offset = await self._target.append(batch, line.sequence)
            except (UnreachableError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.code == ErrorCode.MESSAGE_TOO_LARGE:
                    self._divide()
                    give_up_at = inf  # the leader responds
                    continue
                give_up_at = min(give_up_at, trio.current_time() + PATIENCE_SECONDS)
                await self._on_failed(error, is_last=trio.current_time() >= give_up_at)
                continue
            self._heard_at = trio.current_time()
            if offset is None:
                await self._patiently_catch_up()
            else:
                line.on_appended(offset)
                self.counts.sent += line.position.ordinal - first
                self._writer.add(line.take_ranges())

    async def _on_failed(self, error: UnreachableError | RefusedError, *, is_last: bool) -> None:
        """Decides what to do after an attempt to send the batch. Raises the error if nothing can be done."""
        line, partition = self._line, self._target.partition
        if isinstance(error, UnreachableError):
            if is_last:
                raise error
        elif error.code in _UNCERTAIN:
            before = line.position
            await self._patiently_catch_up()
            if line.position == before and is_last:
                raise ReplayError(
                    f"{partition} has lost records of this replay that it had acknowledged: begin another replay into "
                    "an empty topic, with another directory for its map"
                )
        elif not _is_passing(error) or is_last:
            raise RefusedError(
                f"{partition} refuses the records from offset {line.first_offset} of the source on: {reason_of(error)}",
                error.code,
            )
        await trio.sleep(_PAUSE_SECONDS)

    def _divide(self) -> None:
        if not self._line.on_too_large():
            partition = self._target.partition
            raise ReplayError(
                f"the record at offset {self._line.first_offset} of the source is too large for {partition}: raise "
                f"max.message.bytes of {partition.topic}"
            )

    # pace and map

    async def _wait_until_due(self) -> None:
        """Waits for the last record of the batch, so that no record comes too early."""
        if self._pace is None or (timestamp := self._line.last_timestamp) is None:
            return
        late_ms = self._pace.due_ms(timestamp) - self._wall_clock.now_ms()
        if late_ms > PART_SECONDS * 1000:
            self._write_part(PartState(self._line.position))
        if late_ms > 0:
            await trio.sleep(late_ms / 1000)

    def _write_part(self, state: PartState) -> None:
        self._writer.write(state)
        self._written_at = trio.current_time()


def _is_passing(error: RefusedError | UnreachableError) -> bool:
    return isinstance(error, UnreachableError) or error.code in _TRANSIENT
