"""What compaction remembers and decides, without any file."""

from tailrace.protocol.batches.keyed_records import keyed_records
from tailrace.protocol.batches.record_batch import BatchHeader, read_header
from tailrace.protocol.batches.records import Record, build_batch, open_body
from tailrace.storage.compaction.compaction import (
    Compacted,
    Rules,
    Survey,
    compacted_end,
    cut_history,
    tombstones_end,
    with_compaction,
)

HOUR = 3600 * 1000


def batch(base: int, *keys: str, **attributes: object) -> tuple[BatchHeader, bytes]:
    records = [Record(base + index, 0, key.encode(), b"") for index, key in enumerate(keys)]
    data = bytes(build_batch(records, base_offset=base, **attributes))  # type: ignore[arg-type]
    return read_header(data), data


def survey_of(*made: tuple[BatchHeader, bytes], start: int = 0, keys_max: int = 100) -> Survey:
    survey = Survey(start, keys_max)
    for header, data in made:
        if survey.begin(header):
            survey.note(header, keyed_records(open_body(data, header), header.record_count))
        if survey.is_over:
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


def test_a_full_survey_ends_before_the_first_key_without_a_place() -> None:
    survey = survey_of(batch(0, "a", "b", "a", "c", "a"), keys_max=2)
    assert (survey.end, survey.is_over, len(survey)) == (3, True, 2)


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


def test_records_without_a_key_go() -> None:
    survey = survey_of(batch(0, "a"))
    rules = Rules(survey, tombstones_end=0, producers_since_ms=0, repeated_since_ms=0)
    data = build_batch([Record(0, 0, None, b"")])
    (record,) = keyed_records(open_body(data, read_header(data)), 1)
    assert not rules.keeps(0, record)
    assert rules.keeps(1, record), "it was not judged"


def test_moments_are_rounded_up_so_that_few_are_remembered() -> None:
    history: list[Compacted] = []
    for number in range(10_000):
        history, newest = with_compaction(history, number, number * 15_000, 24 * HOUR)
        assert newest.at_ms >= number * 15_000
        assert len(history) <= 18
        assert compacted_end(history) == number


def test_what_was_compacted_long_enough_ago_tells_nobody_anything() -> None:
    history, _ = with_compaction([], 10, 1000, 160)
    history, _ = with_compaction(history, 20, 1050, 160)
    assert [tombstones_end(history, now, 160) for now in (1159, 1160, 1209, 1210)] == [0, 10, 10, 20]
    history, _ = with_compaction(history, 30, 1300, 160)
    assert history == [Compacted(20, 1050), Compacted(30, 1300)]


def test_no_retention_of_tombstones_keeps_them_for_one_compaction() -> None:
    history, _ = with_compaction([], 10, 1000, 0)
    assert tombstones_end(history, 1000, 0) == 10


def test_a_truncation_makes_the_history_shorter() -> None:
    assert cut_history([Compacted(10, 1), Compacted(20, 2)], 15) == [Compacted(10, 1), Compacted(15, 2)]
