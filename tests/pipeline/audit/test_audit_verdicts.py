"""Each verdict, from batches in memory."""

from collections.abc import Iterator, Sequence

from tailrace.pipeline.audit.audit_verdicts import (
    FINDINGS_MAX,
    Bridge,
    CopyBounds,
    EntryKind,
    Finding,
    Item,
    RangeComparison,
    RangeFacts,
    StoredBatch,
    Unreadable,
    Verdict,
    named,
    worst,
)
from tailrace.protocol.batches import control_batches
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.storage.compaction.compaction import emptied

ALL = CopyBounds(0, 10**6)


def batch(
    base: int, *values: bytes, epoch: int = 1, offsets: Sequence[int] = (), last: int | None = None
) -> StoredBatch:
    """Makes a batch. `offsets` are those of the records that compaction has left, and `last` is its last offset."""
    records = [
        Record(base + index, 1000, b"key", value)
        for index, value in zip(offsets or range(len(values)), values, strict=True)
    ]
    content = bytearray(build_batch(records, base_offset=base, leader_epoch=epoch))
    header = read_header(content)
    if last is not None:
        header.last_offset_delta = last - base
    header.base_timestamp = 1000
    return StoredBatch(header, content=content)


def hole(base: int, end: int, epoch: int = 1) -> StoredBatch:
    return StoredBatch(read_header(control_batches.hole(base, end, epoch)), EntryKind.HOLE)


def bridge(base: int, epoch: int = 1) -> StoredBatch:
    return StoredBatch(read_header(control_batches.bridge(base, epoch)), EntryKind.BRIDGE, epoch)


LOG = (batch(0, b"a", b"b"), batch(2, b"c"), batch(3, b"d", b"e"))
END = 5


def compared(
    *copies: Sequence[Item], bounds: Sequence[CopyBounds] = (), start: int = 0, end: int = END, gaps_end: int = 0
) -> RangeFacts:
    comparison = RangeComparison(bounds or [CopyBounds(0, end)] * len(copies), start, end, gaps_end)
    return comparison.compare([iter(each) for each in copies])


def verdicts(facts: RangeFacts) -> list[tuple[int, Verdict, int, int]]:
    return [(each.copy, each.verdict, each.first, each.last) for each in facts.findings]


def test_equal_copies_have_no_findings() -> None:
    facts = compared(LOG, LOG, LOG)
    assert (verdicts(facts), facts.batches, facts.records) == ([], [3] * 3, [5] * 3)
    assert not facts.has_compacted
    assert not facts.differences


def test_a_batch_that_does_not_match_its_checksum_is_rotten_and_compared_no_further() -> None:
    rotten = StoredBatch(batch(2, b"x").header, is_sound=False)
    facts = compared(LOG, (LOG[0], rotten, LOG[2]))
    assert verdicts(facts) == [(1, Verdict.ROTTEN, 2, 2)]


def test_the_copy_that_differs_from_most_has_diverged_and_of_two_both_have() -> None:
    other = (LOG[0], batch(2, b"x"), LOG[2])
    assert verdicts(compared(LOG, other, LOG)) == [(1, Verdict.DIVERGED, 2, 2)]
    assert verdicts(compared(LOG, other)) == [(0, Verdict.DIVERGED, 2, 2), (1, Verdict.DIVERGED, 2, 2)]
    (finding,) = compared(other, LOG, LOG).findings
    assert named(finding.sentence, ["A", "B", "C"]) == "the batch at offset 2 is another one than in B and C"


def test_neighbouring_batches_are_one_finding() -> None:
    other = (LOG[0], batch(2, b"x"), batch(3, b"y", b"z"))
    assert verdicts(compared(LOG, other, LOG)) == [(1, Verdict.DIVERGED, 2, 4)]
    other = (batch(0, b"x", b"y"), LOG[1], batch(3, b"y", b"z"))
    assert [each[2:] for each in verdicts(compared(LOG, other, LOG))] == [(0, 1), (3, 4)]


def test_other_bounds_of_batches_are_a_divergence() -> None:
    other = (batch(0, b"a", b"b", b"c"), LOG[2])
    found = verdicts(compared(LOG, other, LOG))
    assert {each[:2] for each in found} == {(1, Verdict.DIVERGED)}
    assert found[0][2] == 0


def test_a_batch_that_begins_within_one_of_the_others_has_diverged_even_among_gaps() -> None:
    moved = (batch(1, b"a", b"b"), LOG[2])
    assert verdicts(compared(LOG, moved, LOG, gaps_end=END)) == [(1, Verdict.DIVERGED, 1, 2)]
    assert (0, Verdict.DIVERGED) in {each[:2] for each in verdicts(compared(LOG, moved, gaps_end=END))}


def test_a_batch_that_only_some_copies_have_is_missing_in_the_others() -> None:
    assert verdicts(compared(LOG, (LOG[0], LOG[2]), LOG)) == [(1, Verdict.MISSING, 2, 2)]
    assert verdicts(compared(LOG, LOG[:1], LOG)) == [(1, Verdict.MISSING, 2, 4)]


def test_offsets_that_no_copy_has_are_missing_in_all() -> None:
    gap = (LOG[0], LOG[2])
    assert verdicts(compared(gap, gap)) == [(0, Verdict.MISSING, 2, 2), (1, Verdict.MISSING, 2, 2)]
    assert verdicts(compared(LOG[:2])) == [(0, Verdict.MISSING, 3, 4)]


def test_a_copy_is_compared_from_its_log_start_to_its_high_watermark() -> None:
    other = (batch(0, b"x", b"y"), LOG[1], batch(3, b"y", b"z"))
    assert verdicts(compared(LOG, other, LOG, bounds=[ALL, CopyBounds(2, 3), ALL])) == []
    assert verdicts(compared(LOG, (), LOG, bounds=[CopyBounds(0, 5), CopyBounds(0, 0), CopyBounds(0, 5)])) == []
    assert verdicts(compared(LOG, LOG[1:], bounds=[CopyBounds(0, 5), CopyBounds(2, 5)])) == []


def test_what_cannot_be_read_is_not_reported_again() -> None:
    assert verdicts(compared(LOG, (LOG[0], Unreadable(2, 5)), LOG)) == []


def test_a_batch_that_begins_before_the_range_is_not_compared_in_it() -> None:
    other = (batch(0, b"x", b"y"), *LOG[1:])
    assert verdicts(compared(LOG, other, LOG, start=1)) == []


# compaction

COMPACTED = (batch(0, b"b", offsets=(1,)), batch(3, b"d", b"e"))


def test_compaction_may_remove_records_and_batches_below_the_sealed_end_only() -> None:
    facts = compared(LOG, COMPACTED, LOG, gaps_end=3)
    assert (verdicts(facts), facts.has_compacted) == ([], True)
    assert verdicts(compared(COMPACTED, COMPACTED, gaps_end=3)) == []
    assert verdicts(compared(LOG, COMPACTED[:1], LOG, gaps_end=3)) == [(1, Verdict.MISSING, 3, 4)]
    assert verdicts(compared(LOG, COMPACTED, LOG)) == [(1, Verdict.MISSING, 2, 2)]


def test_a_record_that_compacted_copies_share_must_be_the_same() -> None:
    changed = (batch(0, b"x", offsets=(1,)), COMPACTED[1])
    assert verdicts(compared(LOG, changed, LOG, gaps_end=3)) == [(1, Verdict.DIVERGED, 0, 1)]
    # Two copies that were compacted differently have no record in common here.
    one, other = batch(0, b"a", offsets=(0,), last=1), batch(0, b"b", offsets=(1,))
    assert verdicts(compared((one,), (other,), end=2)) == []


def test_compaction_changes_no_control_batch_and_removes_none() -> None:
    log = (LOG[0], hole(2, 4), bridge(4))
    facts = compared(log, log)
    assert verdicts(facts) == []
    assert facts.bridges == [Bridge(4, 1)]
    assert [(each.first, each.last, each.copies) for each in facts.holes] == [(2, 3, (0, 1))]
    assert verdicts(compared(log, (LOG[0], bridge(4)), gaps_end=5)) == [(1, Verdict.MISSING, 2, 3)]
    assert verdicts(compared(log, log[:2], gaps_end=5)) == [(1, Verdict.BRIDGE, 4, 4)]


def _marker(base: int, now_ms: int = 1000) -> StoredBatch:
    content = marker_batch(base, 1, 7, 0, is_commit=True, coordinator_epoch=1, now_ms=now_ms)
    return StoredBatch(read_header(content), EntryKind.MARKER, content=content)


def _emptied(found: StoredBatch) -> StoredBatch:
    content = emptied(read_header(found.content))
    return StoredBatch(read_header(content), found.kind, content=content)


def test_compaction_may_remove_markers_and_empty_batches_of_transactions() -> None:
    records = [Record(0, 1000, b"key", b"a")]
    content = build_batch(
        records,
        base_offset=0,
        leader_epoch=1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    log = (StoredBatch(read_header(content), content=content), _marker(1), LOG[1])
    assert verdicts(compared(log, (LOG[1],), gaps_end=2, end=3)) == []
    assert verdicts(compared(log, tuple(_emptied(each) for each in log[:2]) + log[2:], gaps_end=2, end=3)) == []
    assert verdicts(compared(log, (LOG[1],), end=3))[0] == (1, Verdict.MISSING, 0, 1)
    assert verdicts(compared(log, (log[0], _marker(1, 1001), log[2]), log, end=3)) == [(1, Verdict.DIVERGED, 1, 1)]


def test_a_bridge_that_no_copy_has_is_missing_if_recovery_stamped_what_lies_before() -> None:
    log = (batch(0, b"a", b"b", epoch=3), batch(3, b"d", b"e", epoch=3))
    noted = CopyBounds(0, END, epoch_starts=((3, 2),))
    assert verdicts(compared(log, bounds=[noted], gaps_end=END)) == [(0, Verdict.BRIDGE, 2, 2)]
    handed_over = (batch(0, b"a", b"b", epoch=2), batch(3, b"d", b"e", epoch=3))
    assert verdicts(compared(handed_over, bounds=[noted], gaps_end=END)) == []
    whole = (log[0], bridge(2, 3), log[1])
    assert verdicts(compared(whole, bounds=[noted], gaps_end=END)) == []


# epochs


def test_other_epochs_are_noted_as_one_range() -> None:
    stamped = tuple(
        batch(each.header.base_offset, *values, epoch=2)
        for each, values in zip(LOG, ((b"a", b"b"), (b"c",), (b"d", b"e")), strict=True)
    )
    facts = compared(LOG, stamped)
    assert verdicts(facts) == []
    assert [(each.first, each.last, each.epochs) for each in facts.differences] == [(0, 4, ((0, 1), (1, 2)))]
    shelf = CopyBounds(0, END, compares_epochs=False)
    assert compared(LOG, stamped, bounds=[CopyBounds(0, END), shelf]).differences == []


def test_an_epoch_that_falls_is_noted() -> None:
    log = (LOG[0], batch(2, b"c", epoch=9), LOG[2])
    (fall,) = compared(log).falls
    assert (fall.before, fall.epoch_before, fall.offset, fall.epoch) == (2, 9, 3, 1)


def test_findings_are_bounded() -> None:
    log = [batch(offset, b"a") for offset in range(200)]
    other = [batch(offset, b"a" if offset % 2 else b"b") for offset in range(200)]
    facts = compared(log, other, log, end=200)
    assert len(facts.findings) == FINDINGS_MAX
    assert facts.unlisted == 100 - FINDINGS_MAX


def test_the_worst_verdict_comes_first() -> None:
    def found(*given: Verdict) -> Iterator[Verdict]:
        return (Finding(0, each, 0, 0, "").verdict for each in given)

    assert worst(found(Verdict.BRIDGE, Verdict.ROTTEN, Verdict.MISSING)) is Verdict.ROTTEN
    assert worst(found()) is Verdict.EQUAL
