import pytest
from replay_samples import arrow_batch, sample_records

from tailrace.pipeline.archive.manifest.record_rollup import rollup_of
from tailrace.pipeline.replay.record_choice import RecordChoice, RecordChooser
from tailrace.pipeline.replay.record_masks import RecordMasks, parse_mask
from tailrace.pipeline.replay.record_stream import RecordStream, records_of
from tailrace.pipeline.replay.replay_line import ReplayError, SourceRecord
from tailrace.protocol.batches.records import Record


def _stream(*masks: str, choice: RecordChoice | None = None, count: int = 30) -> tuple[list[SourceRecord], int]:
    batches = [arrow_batch(sample_records(count)[:20]), arrow_batch(sample_records(count)[20:])]
    chooser = RecordChooser(choice or RecordChoice())
    stream = RecordStream("orders/0", batches, chooser, RecordMasks(map(parse_mask, masks), None), 100)
    found: list[SourceRecord] = []
    while (records := stream.next()) is not None:
        found += records
    return found, stream.read


def test_rows_become_the_records_that_they_were() -> None:
    records = [*sample_records(30), Record(30, -1, None, b"no time")]
    assert records_of(arrow_batch(records)) == records


def test_each_record_knows_how_much_was_read_and_its_part_of_the_roll_up() -> None:
    found, read = _stream()
    assert read == 130
    assert [each.read for each in found[:2]] == [101, 102]
    assert sum(each.hash for each in found) % 2**64 == rollup_of([arrow_batch(sample_records(30))])


def test_a_key_is_chosen_before_it_is_masked() -> None:
    found, read = _stream("key=replace:x", choice=RecordChoice(keys=("key-1",)))
    assert read == 130
    assert {each.record.key for each in found} == {b"x"}
    masked = [Record(each.offset, each.timestamp, b"x", each.value, each.headers) for each in sample_records(30)]
    chosen = [each for each in masked if sample_records(30)[each.offset].key == b"key-1"]
    assert [each.offset for each in found] == [each.offset for each in chosen]
    assert sum(each.hash for each in found) % 2**64 == rollup_of([arrow_batch(chosen)])


def test_the_record_that_cannot_be_masked_is_named() -> None:
    with pytest.raises(ReplayError, match="offset 0 of orders/0: the value is no JSON"):
        _stream("value.email=drop")
