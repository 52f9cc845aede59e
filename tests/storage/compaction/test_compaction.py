"""The rules of compaction, without files."""

from tailrace.protocol.batches.keyed_records import keyed_records
from tailrace.protocol.batches.record_batch import BatchHeader, read_header
from tailrace.protocol.batches.records import Record, build_batch, open_body
from tailrace.storage.compaction.compaction import Rules, Survey


def batch(base: int, *keys: str, **attributes: object) -> tuple[BatchHeader, bytes]:
    records = [Record(base + index, 0, key.encode(), b"") for index, key in enumerate(keys)]
    data = bytes(build_batch(records, base_offset=base, **attributes))  # type: ignore[arg-type]
    return read_header(data), data


def survey_of(*made: tuple[BatchHeader, bytes], start: int = 0, keys_max: int = 100) -> Survey:
    survey = Survey(start, keys_max)
    for header, data in made:
        if survey.begin(header):
            survey.note(header, keyed_records(open_body(data, header), header.record_count))
        if survey.has_ended:
            break
        survey.finish(header)
    return survey


def test_a_record_is_superseded_by_a_later_one_with_its_key() -> None:
    long = "key" * 10
    survey = survey_of(batch(0, "a", long), batch(2, "a", long, "b"))
    assert [survey.supersedes(offset, b"a") for offset in (0, 1, 2, 3)] == [True, True, False, False]
    assert survey.supersedes(1, long.encode())
    assert not survey.supersedes(3, long.encode())
    assert not survey.supersedes(0, b"another")
    assert survey.end == 5


def test_a_full_survey_ends_before_the_first_key_that_does_not_fit() -> None:
    survey = survey_of(batch(0, "a", "b", "a", "c", "a"), keys_max=2)
    assert (survey.end, survey.has_ended, len(survey)) == (3, True, 2)


def test_producers_count_as_keys_do() -> None:
    made = [batch(number, "a", producer_id=number, producer_epoch=0, base_sequence=0) for number in range(5)]
    assert survey_of(*made, keys_max=3).end == 3


def test_records_of_transactions_are_not_judged_before_their_outcome_is_known() -> None:
    survey = survey_of(batch(0, "a"), batch(1, "a", is_transactional=True), batch(2, "a"))
    assert survey.end == 1
    assert not survey.supersedes(0, b"a")


def test_control_batches_stay_and_supersede_nothing() -> None:
    control = batch(1, "a", is_control=True)
    survey = survey_of(batch(0, "a"), control)
    assert survey.end == 2
    assert not survey.supersedes(0, b"a")
    assert not Rules(survey, tombstones_end=0, producers_since_ms=0, repeated_since_ms=0).looks_into(control[0])


def test_records_without_a_key_are_dropped() -> None:
    survey = survey_of(batch(0, "a"))
    rules = Rules(survey, tombstones_end=0, producers_since_ms=0, repeated_since_ms=0)
    data = build_batch([Record(0, 0, None, b"")])
    (record,) = keyed_records(open_body(data, read_header(data)), 1)
    assert not rules.keeps(0, record)
    assert rules.keeps(1, record), "it was not judged"
