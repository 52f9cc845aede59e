from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.messages import SealReply
from tailrace.broker.replication.recovery import (
    RecoveredLog,
    bridge_entry,
    has_committed_prefix,
    merge_stamped,
    recovered_log,
)
from tailrace.protocol.ids import Epoch, SpuId


def e(base: int, epoch: int = 1, *, content: int | None = None, end: int | None = None) -> Entry:
    return Entry(base, end or base + 1, Epoch(epoch), content=base if content is None else content)


def hole(base: int, end: int, epoch: int) -> Entry:
    return Entry(base, end, Epoch(epoch), kind=EntryKind.HOLE)


def test_the_example_of_three_stores_with_a_hole() -> None:
    """The stream engine's own example: A has e1, e2 and e3; B and C lack e2. Its indexes begin at 1."""
    a, b, c = [e(1), e(2), e(3)], [e(1), e(3)], [e(1), e(3)]
    recovered = merge_stamped(1, [b, c], Epoch(2))
    assert recovered == [e(1, 2), hole(2, 3, 2), e(3, 2)]
    # The hole has reached B and C; then a reader asks A and B. Of two entries at one index, the larger epoch wins.
    assert merge_stamped(1, [a, recovered], Epoch(3)) == [e(1, 3), hole(2, 3, 3), e(3, 3)]
    # A leader that asks A finds e2 there, which may have been acknowledged as far as the leader can know.
    assert merge_stamped(1, [a, b], Epoch(2)) == [e(1, 2), e(2, 2), e(3, 2)]


def test_nothing_beyond_the_start_is_nothing_to_recover() -> None:
    assert merge_stamped(5, [[e(4)], []], Epoch(2)) == []


def test_one_store_alone_is_stamped_as_it_is() -> None:
    assert merge_stamped(0, [[e(0), e(1, end=4)]], Epoch(2)) == [e(0, 2), e(1, 2, end=4)]


def test_the_largest_epoch_wins_whatever_is_longer() -> None:
    stale = [e(0), e(1, content=91), e(2, content=92), e(3, content=93)]
    fresh = [e(0), e(1, 2, content=81)]
    assert merge_stamped(0, [stale, fresh], Epoch(3)) == [e(0, 3), e(1, 3, content=81)]


def test_after_a_difference_a_store_is_not_read_any_further() -> None:
    """Otherwise the end of a log would return without the batches before it."""
    stale = [e(0, content=90), e(1, content=91), e(2, content=92)]
    fresh = [e(0, 2, content=80)]
    assert merge_stamped(0, [stale, fresh], Epoch(3)) == [e(0, 3, content=80)]


def test_an_entry_that_was_stamped_only_in_part_of_the_stores_is_one_entry() -> None:
    stamped_so_far = [e(0, 2), e(1, 1)]
    not_stamped = [e(0, 1), e(1, 1), e(2, 1)]
    assert merge_stamped(0, [stamped_so_far, not_stamped], Epoch(3)) == [e(0, 3), e(1, 3), e(2, 3)]


def test_an_entry_stamped_by_its_recovery_wins_over_an_epoch_between() -> None:
    """Leader 3 has recovered the first leader's entry and acknowledged it; leader 2's entry has reached only one
    store."""
    acknowledged, never = [e(0, 3, content=1)], [e(0, 2, content=2)]
    assert merge_stamped(0, [acknowledged, never], Epoch(4)) == [e(0, 4, content=1)]


def test_batches_that_overlap_do_not_mix() -> None:
    stale = [e(0, 1, content=90, end=3), e(3, 1, content=93)]
    fresh = [e(0, 2, content=80), e(1, 2, content=81)]
    assert merge_stamped(0, [stale, fresh], Epoch(3)) == [e(0, 3, content=80), e(1, 3, content=81)]


def test_a_store_that_missed_commits_is_not_read() -> None:
    committed = [e(0), e(1)]
    assert has_committed_prefix(committed, 2, [e(1), e(2, content=92)])
    assert has_committed_prefix(committed, 2, [e(2, content=92)])
    assert has_committed_prefix(committed, 2, [])
    assert not has_committed_prefix(committed, 2, [e(1, 7, content=91), e(2, content=92)])


def test_deleted_or_compacted_entries_are_not_compared() -> None:
    assert has_committed_prefix([e(1), e(3)], 4, [e(0), e(1), e(2), e(3)])
    assert has_committed_prefix([e(1), e(2), e(3)], 4, [e(1), e(3)])


def test_a_batch_that_has_lost_records_in_one_store_may_be_that_of_the_other() -> None:
    compacted = Entry(1, 2, Epoch(7), content=90, kind=EntryKind.COMPACTED)
    assert has_committed_prefix([compacted], 2, [e(1), e(2)])
    assert has_committed_prefix([e(1)], 2, [compacted, e(2)])
    assert not has_committed_prefix([compacted], 2, [e(1, end=3)])


def _reply(spu: int, *entries: Entry, high_watermark: int, log_start: int = 0, epoch: int = 1) -> SealReply:
    end = entries[-1].end if entries else max(high_watermark, log_start)
    return SealReply(Epoch(9), SpuId(spu), f"{spu}.1", high_watermark, end, False, entries, log_start, Epoch(epoch))


def test_below_the_largest_high_watermark_gaps_are_no_holes() -> None:
    """C has compacted what is missing, and knows that it is committed."""
    mine, its = (
        _reply(1, e(1), e(2, content=92), high_watermark=1),
        _reply(3, e(1), e(4), e(5), high_watermark=5, epoch=2),
    )
    assert recovered_log([e(0)], 1, [mine, its], Epoch(9)) == RecoveredLog(
        1, (e(1), e(4), e(5, 9), bridge_entry(6, Epoch(9))), 5, Epoch(2), 0
    )


def test_records_that_others_have_deleted_are_not_recovered() -> None:
    mine, its = _reply(1, e(1), high_watermark=1), _reply(3, e(4, end=6), high_watermark=6, log_start=5)
    recovered = recovered_log([e(0)], 1, [mine, its], Epoch(9))
    assert (recovered.start, recovered.log_start, recovered.entries[0]) == (4, 5, e(4, end=6))


def test_all_may_be_deleted() -> None:
    recovered = recovered_log([], 0, [_reply(1, high_watermark=0), _reply(3, high_watermark=7, log_start=7)], Epoch(9))
    assert recovered == RecoveredLog(7, (), 7, Epoch(1), 7)
    assert recovered.end == 7


def test_bridges_of_two_recoveries_are_two() -> None:
    one, other = bridge_entry(1, Epoch(2)), bridge_entry(1, Epoch(3))
    assert (one.base, one.end, one.kind) == (1, 2, EntryKind.BRIDGE)
    assert not one.is_same_as(other)
