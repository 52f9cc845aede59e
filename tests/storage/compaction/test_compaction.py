"""The rules of compaction, without files."""

from tailrace.protocol.batches.keyed_records import keyed_records
from tailrace.protocol.batches.record_batch import BatchHeader, read_header
from tailrace.protocol.batches.records import Record, build_batch, open_body
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.storage.compaction.compaction import AbortedRanges, Rules, Survey, emptied
from tailrace.storage.transactions.aborted_transactions import AbortedTransaction


def batch(base: int, *keys: str, **attributes: object) -> tuple[BatchHeader, bytes]:
    records = [Record(base + index, 0, key.encode(), b"") for index, key in enumerate(keys)]
    data = bytes(build_batch(records, base_offset=base, **attributes))  # type: ignore[arg-type]
    return read_header(data), data


def survey_of(
    *made: tuple[BatchHeader, bytes], start: int = 0, keys_max: int = 100, aborted: AbortedRanges | None = None
) -> Survey:
    survey = Survey(start, keys_max, aborted or AbortedRanges())
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


def transactional(base: int, *keys: str, producer: int = 7) -> tuple[BatchHeader, bytes]:
    return batch(base, *keys, is_transactional=True, producer_id=producer, producer_epoch=0, base_sequence=0)


def marker(offset: int, producer: int = 7, *, time: int = 0) -> tuple[BatchHeader, bytes]:
    data = bytes(marker_batch(offset, 0, producer, 0, is_commit=False, coordinator_epoch=0, now_ms=time))
    return read_header(data), data


def test_records_of_aborted_transactions_supersede_nothing() -> None:
    aborted = AbortedRanges([AbortedTransaction(7, 1, 3), AbortedTransaction(7, 5, 7)])
    offsets = [offset for offset in range(9) if aborted.has(transactional(offset, "a")[0])]
    assert offsets == [1, 2, 5, 6]
    assert not aborted.has(transactional(1, "a", producer=8)[0])
    assert not aborted.has(batch(1, "a", producer_id=7, producer_epoch=0, base_sequence=0)[0])
    made = [batch(0, "a"), transactional(1, "a"), marker(3), transactional(4, "b"), batch(5, "b")]
    survey = survey_of(*made, aborted=aborted)
    assert survey.end == 6
    assert not survey.supersedes(0, b"a"), "only an aborted record has the same key"
    assert survey.supersedes(4, b"b")


def rules_of(*made: tuple[BatchHeader, bytes], tombstones_end: int = 100, now_ms: int = 1000) -> Rules:
    rules = Rules(survey_of(*made), tombstones_end=tombstones_end, producers_since_ms=now_ms, repeated_since_ms=now_ms)
    rules.begin_segment(lambda: ())
    return rules


def test_a_marker_goes_when_nothing_of_its_transaction_is_left() -> None:
    data, end, later = transactional(0, "a"), marker(1), marker(2)
    rules = rules_of(data, end, later)
    rules.on_kept(data[0])
    assert rules.keeps_marker(end[0]), "records of its transaction are left"
    assert not rules.keeps_marker(later[0])


def test_a_marker_goes_when_no_tombstone_of_its_age_stays() -> None:
    made = marker(0), marker(1)
    rules = rules_of(*made, tombstones_end=1)
    assert [rules.keeps_marker(header) for header, _ in made] == [False, True]
    rules = rules_of(made[0])
    assert rules.keeps_marker(made[1][0]), "the survey has not judged it"


def test_the_last_marker_of_a_producer_stays_for_a_day() -> None:
    made = marker(0, time=5), marker(1, time=5), marker(2, 8, time=4)
    rules = rules_of(*made, now_ms=5)
    assert [rules.keeps_marker(header) for header, _ in made] == [False, True, False]


def test_a_marker_stays_if_a_snapshot_before_it_has_the_transaction_open() -> None:
    """The segment before may have had all records of the transaction. A log that is opened reads from there on."""
    made = marker(0), marker(1), marker(2, 8)
    asked = []
    rules = rules_of(*made)

    def open_before() -> list[int]:
        asked.append(True)
        return [7]

    rules.begin_segment(open_before)
    assert [rules.keeps_marker(header) for header, _ in made] == [True, False, False]
    assert len(asked) == 1
    rules.begin_segment(lambda: [7])
    rules.begin_segment(lambda: None)
    assert not rules.keeps_marker(made[0][0])
    rules.begin_segment(lambda: [7, 8])
    assert rules.keeps_marker(made[2][0])
    rules.begin_segment(lambda: None)
    assert rules.keeps_marker(made[0][0]), "there is no newer snapshot"


def test_a_marker_that_stays_ends_the_transaction_of_a_snapshot_that_was_not_read_yet() -> None:
    data, end, later = transactional(0, "a"), marker(1), marker(2)
    rules = rules_of(data, end, later)
    rules.begin_segment(lambda: [7])
    rules.on_kept(data[0])
    assert [rules.keeps_marker(header) for header, _ in (end, later)] == [True, False]


def test_a_batch_without_records_is_part_of_no_transaction() -> None:
    """Its marker may go before it."""
    header, _ = transactional(3, "a")
    after = read_header(emptied(header))
    assert (after.is_transactional, after.record_count) == (False, 0)
    assert (after.base_offset, after.producer_id, after.base_sequence) == (3, 7, 0)


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
