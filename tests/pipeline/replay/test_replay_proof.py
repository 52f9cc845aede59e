import pytest
from replay_samples import sample_records

from tailrace.pipeline.archive.manifest.record_rollup import record_hashes, rollup_of
from tailrace.pipeline.replay.offset_map import PartState
from tailrace.pipeline.replay.record_stream import batch_of
from tailrace.pipeline.replay.replay_line import LandedBatch
from tailrace.pipeline.replay.replay_position import MappedRange, ReplayPosition
from tailrace.pipeline.replay.replay_proof import PartitionProof, ReplayProof
from tailrace.protocol.batches.records import Record

SOURCE = sample_records(20, gap=2)  # offsets 0 to 9 and 12 to 21
RANGES = (MappedRange(0, 100, 6), MappedRange(6, 110, 4), MappedRange(12, 114, 10))
STATE = PartState(ReplayPosition(22, 124, 20, 20, rollup_of([batch_of(SOURCE)])), is_end=True)


def _at(record: Record, offset: int) -> Record:
    return Record(offset, record.timestamp, record.key, record.value, record.headers)


def _landed(first: int, end: int, offset: int) -> LandedBatch:
    records = [_at(each, offset + number) for number, each in enumerate(SOURCE[first:end])]
    return LandedBatch(first, offset, end - first - 1, records)


def _proof(*batches: LandedBatch, state: PartState = STATE) -> PartitionProof:
    proof = ReplayProof(3, state, RANGES, lambda records: record_hashes(batch_of(records)).tolist())
    for each in batches:
        proof.on_landed([each])
    return proof.result()


def test_a_target_with_each_record_once_has_the_roll_up_of_the_source() -> None:
    found = _proof(_landed(0, 6, 100), _landed(6, 20, 110))
    assert found == PartitionProof(3, 20, 20, 0, 0, STATE.position.rollup, STATE.position.rollup, True)
    assert found.verdict == "equal"
    assert _proof(_landed(0, 6, 100), _landed(6, 20, 110), state=PartState(STATE.position)).verdict == "not finished"


@pytest.mark.parametrize(
    ("batches", "verdict"),
    [
        ((_landed(0, 6, 100), _landed(0, 6, 106), _landed(6, 20, 112)), "duplicates"),
        ((_landed(0, 6, 100), _landed(6, 20, 111)), "the map is wrong"),
        ((_landed(0, 6, 100), _landed(8, 20, 112)), "records are missing"),
        ((_landed(0, 6, 100),), "records are missing"),
        ((), "records are missing"),
    ],
)
def test_what_is_wrong_is_named(batches: tuple[LandedBatch, ...], verdict: str) -> None:
    assert _proof(*batches).verdict == verdict


def test_another_content_is_found() -> None:
    batch = _landed(6, 20, 110)
    changed = [Record(each.offset, each.timestamp, each.key, b"x", each.headers) for each in batch.records[:1]]
    other = LandedBatch(6, 110, 13, [*changed, *batch.records[1:]])
    assert _proof(_landed(0, 6, 100), other).verdict == "the content differs"
