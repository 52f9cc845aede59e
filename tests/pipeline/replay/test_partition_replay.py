"""Kills replays at every point, loses answers, and lets requests arrive late, in front of a model of a leader."""

import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from replay_samples import arrow_batch, sample_records

from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.replay.map_parts import MapNames, PartWriter, partition_ranges, target_offset
from tailrace.pipeline.replay.partition_replay import PART_SECONDS, PartitionReplay
from tailrace.pipeline.replay.record_choice import RecordChoice, RecordChooser
from tailrace.pipeline.replay.record_masks import RecordMasks
from tailrace.pipeline.replay.record_stream import RecordStream
from tailrace.pipeline.replay.replay_line import BatchLimits, LandedBatch, ReplayError
from tailrace.pipeline.replay.replay_pace import ReplayPace
from tailrace.pipeline.replay.replay_position import ReplayPosition
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode

RECORDS = 40
ALL = RecordChoice()
NAMES = MapNames("orders", "7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b", 0, "copy")
KEPT = 5
"""How many batches of a producer a leader remembers."""


class _KilledError(BaseException):
    pass


class _Appended(Struct):
    sequence: int
    offset: int
    records: list[Record]


class ModelLeader:
    """A partition with Kafka's rules about sequence numbers, and other producers that write between."""

    def __init__(self) -> None:
        self.end = 7
        self.batches: list[_Appended] = []
        self.remembers = True
        self.visible = self.end
        self.records_max = 10**6

    def append(self, records: Sequence[Record], sequence: int) -> int:
        if len(records) > self.records_max:
            raise RefusedError("too large", ErrorCode.MESSAGE_TOO_LARGE)
        if self.remembers and self.batches:
            last = self.batches[-1]
            if sequence != last.sequence + len(last.records):
                for each in self.batches[-KEPT:]:
                    if (each.sequence, len(each.records)) == (sequence, len(records)):
                        return each.offset
                raise RefusedError("out of order", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.remembers = True
        offset, self.end = self.end, self.end + len(records)
        copies = [
            Record(offset + n, each.timestamp, each.key, each.value, each.headers) for n, each in enumerate(records)
        ]
        self.batches.append(_Appended(sequence, offset, copies))
        return offset


class ModelTarget:
    """What an attempt sees of the leader. `faults` says what happens to each of its appends."""

    partition = Partition("copy", 0)

    def __init__(self, leader: ModelLeader, faults: Sequence[str], late: list[Callable[[], object]]) -> None:
        self._leader = leader
        self._faults = iter(faults)
        self._late = late

    async def all_landed(self, start: int) -> AsyncGenerator[list[LandedBatch], None]:
        await trio.lowlevel.checkpoint()
        visible, self._leader.visible = self._leader.visible, self._leader.end
        for each in list(self._leader.batches):
            if start < each.offset + len(each.records) <= visible:
                yield [LandedBatch(each.sequence, each.offset, len(each.records) - 1, each.records)]

    async def append(self, records: Sequence[Record], sequence: int) -> int | None:
        await trio.lowlevel.checkpoint()
        leader = self._leader
        copies = list(records)
        match next(self._faults, "ok"):
            case "killed before":
                raise _KilledError
            case "killed after":
                leader.append(copies, sequence)
                raise _KilledError
            case "killed, arrives late":
                self._late.append(lambda: leader.append(copies, sequence))
                raise _KilledError
            case "answer lost":
                leader.append(copies, sequence)
                raise UnreachableError("silence")
            case "not arrived":
                raise UnreachableError("silence")
            case "arrives late":
                self._late.append(lambda: leader.append(copies, sequence))
                raise UnreachableError("silence")
            case "others write":
                leader.end += 3
            case "slow":
                await trio.sleep(PART_SECONDS + 1)
            case "very slow":
                await trio.sleep(100)
            case "offset unknown":
                leader.append(copies, sequence)
                return None
            case "late ones arrive":
                for each in self._late:
                    with suppress(RefusedError):
                        each()
                self._late.clear()
        return leader.append(copies, sequence)


FAULTS = (
    "ok", "killed before", "killed after", "killed, arrives late", "answer lost", "not arrived", "arrives late",
    "others write", "slow", "very slow", "offset unknown", "late ones arrive",
)  # fmt: skip


class Clock:
    def now_ms(self) -> int:
        return int(trio.current_time() * 1000)


def _attempt(
    directory: str,
    target: Any,
    records: Sequence[Record],
    limits: BatchLimits,
    choice: RecordChoice = ALL,
    pace: ReplayPace | None = None,
) -> tuple[PartitionReplay, PartWriter]:
    writer = PartWriter(directory, NAMES, ReplayPosition(0, 7))
    position = writer.state.position
    rows = [arrow_batch([each for each in records if each.offset >= position.source])]
    stream = RecordStream("orders/0", rows, RecordChooser(choice), RecordMasks((), None), position.read)
    end = records[-1].offset + 1
    return PartitionReplay(target, stream, end, writer, Clock(), pace, limits), writer


def _run(replay: PartitionReplay) -> None:
    trio.run(replay.run, clock=trio.testing.MockClock(autojump_threshold=0))


@settings(max_examples=150, deadline=None)
@example([["not arrived", "very slow", "answer lost"]], [5, 1, 1, 1, 1, 1], True)
@given(
    st.lists(st.lists(st.sampled_from(FAULTS), max_size=12), max_size=5),
    st.lists(st.integers(1, 12), min_size=6, max_size=6),
    st.booleans(),
)
def test_each_record_lands_once_and_in_order_whatever_happens(
    attempts: list[list[str]], sizes: list[int], has_small_batches: bool
) -> None:
    leader, late, records = ModelLeader(), [], sample_records(RECORDS, gap=3)
    leader.records_max = 4 if has_small_batches else 10**6
    with tempfile.TemporaryDirectory() as directory:
        for faults, size in zip([*attempts, []], sizes, strict=False):
            target = ModelTarget(leader, faults, late)
            replay, _ = _attempt(directory, target, records, BatchLimits(records_max=size))
            try:
                _run(replay)
            except _KilledError:
                continue
        sent = [each for batch in leader.batches for each in batch.records]
        assert [each.value for each in sent] == [each.value for each in records]
        for one, other in zip(sent, records, strict=True):
            assert (one.timestamp, one.key, one.headers) == (other.timestamp, other.key, other.headers)
        mapped = [
            (each.source + n, each.target + n)
            for each in partition_ranges(directory, 0)
            if each.target is not None
            for n in range(each.records)
        ]
        assert mapped == [(source.offset, landed.offset) for source, landed in zip(records, sent, strict=True)]


def test_two_attempts_at_the_same_time_send_each_record_once(tmp_path: Any) -> None:
    leader, records = ModelLeader(), sample_records(RECORDS)

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            for faults in (["slow"], ["ok", "ok", "slow", "answer lost"]):
                target = ModelTarget(leader, faults * 3, [])
                replay, _ = _attempt(str(tmp_path), target, records, BatchLimits(records_max=3))
                nursery.start_soon(replay.run)

    trio.run(both, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [each.value for batch in leader.batches for each in batch.records] == [each.value for each in records]
    assert sum(each.records for each in partition_ranges(str(tmp_path), 0)) == RECORDS
    assert target_offset(str(tmp_path), 0, 5) == leader.batches[0].offset + 5


def test_an_equal_record_of_another_producer_is_no_record_of_the_replay(tmp_path: Any) -> None:
    leader, records = ModelLeader(), sample_records(4)
    leader.end += len(records)  # another producer has written the same, and only its sequence numbers differ
    replay, _ = _attempt(str(tmp_path), ModelTarget(leader, [], []), records, BatchLimits())
    _run(replay)
    assert replay.counts.sent == 4


def test_a_changed_source_is_noticed(tmp_path: Any) -> None:
    leader, records = ModelLeader(), sample_records(4)
    leader.append([Record(0, 1, b"other", b"content", [])], 0)
    replay, _ = _attempt(str(tmp_path), ModelTarget(leader, [], []), records, BatchLimits())
    with pytest.raises(ReplayError, match="offset 7 of copy/0 has not the content of offset 0 of the source"):
        _run(replay)


def test_records_that_the_target_has_lost_are_reported(tmp_path: Any) -> None:
    leader, records = ModelLeader(), sample_records(4)
    target = ModelTarget(leader, [], [])
    replay, _ = _attempt(str(tmp_path), target, records, BatchLimits(records_max=2))
    append, calls = target.append, count()

    async def losing(batch: Sequence[Record], sequence: int) -> int | None:
        if next(calls):
            raise RefusedError("out of order", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return await append(batch, sequence)

    target.append = losing  # type: ignore[method-assign]
    with pytest.raises(ReplayError, match="copy/0 has lost records of this replay"):
        _run(replay)


def test_a_record_that_is_too_large_is_named(tmp_path: Any) -> None:
    leader, records = ModelLeader(), sample_records(4)
    leader.records_max = 0
    replay, _ = _attempt(str(tmp_path), ModelTarget(leader, [], []), records, BatchLimits())
    with pytest.raises(ReplayError, match=r"offset 0 of the source is too large for copy/0: raise max.message.bytes"):
        _run(replay)


def test_records_come_at_the_pace_of_their_times(tmp_path: Any) -> None:
    leader, records = ModelLeader(), sample_records(5)  # a second between two of them
    arrived: list[float] = []

    class Timed(ModelTarget):
        async def append(self, batch: Sequence[Record], sequence: int) -> int | None:
            arrived.append(trio.current_time())
            return await super().append(batch, sequence)

    async def run() -> None:
        began = trio.current_time()
        pace = ReplayPace(2.0, records[0].timestamp, Clock().now_ms() + 1000)
        replay, _ = _attempt(str(tmp_path), Timed(leader, [], []), records, BatchLimits(), pace=pace)
        await replay.run()
        assert [round(each - began, 2) for each in arrived] == [1.0, 1.5, 2.0, 2.5, 3.0]

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_finished_partition_says_so_also_without_records_at_its_end(tmp_path: Any) -> None:
    leader, records = ModelLeader(), sample_records(10)
    replay, writer = _attempt(
        str(tmp_path), ModelTarget(leader, [], []), records, BatchLimits(), RecordChoice(keys=("key-1",))
    )
    _run(replay)
    assert writer.state.is_end
    assert writer.state.position.source == 10
    assert (writer.state.position.read, writer.state.position.ordinal) == (10, 1)
