from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.ready import AdvanceLogStart, AppendEntries, Restamp, Truncate
from tailrace.broker.replication.rewriting import changes_to_match, restamps
from tailrace.protocol.ids import Epoch


def e(base: int, epoch: int = 1, *, content: int | None = None) -> Entry:
    return Entry(base, base + 1, Epoch(epoch), content=base if content is None else content)


def test_a_log_keeps_identical_entries() -> None:
    assert list(changes_to_match([e(0), e(1)], 2, [e(0, 2), e(1, 2), e(2, 2)])) == [
        Restamp(0, 2, Epoch(2)),
        AppendEntries((e(2, 2),)),
    ]


def test_a_log_is_truncated_at_the_first_difference() -> None:
    wanted = [e(0, 2), e(1, 2, content=81)]
    assert list(changes_to_match([e(0), e(1, content=91), e(2, content=92)], 3, wanted)) == [
        Restamp(0, 1, Epoch(2)),
        Truncate(1),
        AppendEntries((wanted[1],)),
    ]


def test_entries_that_are_not_wanted_are_truncated() -> None:
    assert list(changes_to_match([e(0, 2), e(1)], 2, [e(0, 2)])) == [Truncate(1)]


def test_stamps_are_written_in_runs() -> None:
    own = [e(0), e(1), e(2, 2), e(3)]
    wanted = [e(0, 2), e(1, 2), e(2, 2), e(3, 3)]
    assert list(restamps(zip(own, wanted, strict=True))) == [Restamp(0, 2, Epoch(2)), Restamp(3, 4, Epoch(3))]


def test_entries_are_stamped_with_the_given_epoch() -> None:
    assert list(changes_to_match([e(0)], 1, [e(0), e(1)], epoch=Epoch(5))) == [
        Restamp(0, 1, Epoch(5)),
        AppendEntries((e(1, 5),)),
    ]


def test_entries_that_the_other_log_has_compacted_are_kept_if_both_were_one_log() -> None:
    assert list(changes_to_match([e(0), e(1), e(2)], 3, [e(0), e(2), e(3)])) == [AppendEntries((e(3),))]


def test_entries_in_a_gap_are_truncated_if_nothing_shows_that_they_belong() -> None:
    """The batch behind the gap was sent twice, and is the same in two logs."""
    assert list(changes_to_match([e(0), e(1, content=91), e(2)], 3, [e(0), e(2, 2), e(3, 2)])) == [
        Truncate(1),
        AppendEntries((e(2, 2), e(3, 2))),
    ]
    assert list(changes_to_match([e(0), e(1)], 2, [e(0), e(2)])) == [Truncate(1), AppendEntries((e(2),))]


def test_a_bridge_shows_it_whoever_has_stamped_it_since() -> None:
    bridge = Entry(2, 3, Epoch(2), content=2, kind=EntryKind.BRIDGE)
    assert list(changes_to_match([e(0), e(1), bridge], 3, [e(0), bridge.stamped(Epoch(3)), e(3, 3)])) == [
        Restamp(2, 3, Epoch(3)),
        AppendEntries((e(3, 3),)),
    ]


def test_a_compacted_batch_is_the_same_if_its_epoch_is() -> None:
    assert list(changes_to_match([e(0)], 1, [e(0, content=90), e(1)])) == [AppendEntries((e(1),))]
    assert list(changes_to_match([e(0)], 1, [e(0, 2, content=90)])) == [
        Truncate(0),
        AppendEntries((e(0, 2, content=90),)),
    ]


def test_a_log_that_begins_later_is_truncated_as_a_whole() -> None:
    assert list(changes_to_match([], 9, [e(5)])) == [Truncate(5), AppendEntries((e(5),))]


def test_a_log_with_a_gap_where_an_entry_is_wanted_is_truncated_before_it() -> None:
    assert list(changes_to_match([e(2, content=92)], 3, [e(1), e(2)])) == [Truncate(1), AppendEntries((e(1), e(2)))]
    assert list(changes_to_match([e(1, content=91)], 2, [e(2)])) == [Truncate(1), AppendEntries((e(2),))]


def test_a_log_starts_over_before_anything_is_appended() -> None:
    assert list(changes_to_match([], 3, [e(5)], begin_at=5)) == [AdvanceLogStart(5), AppendEntries((e(5),))]
    assert list(changes_to_match([e(5)], 6, [e(5), e(6)], begin_at=5)) == [AdvanceLogStart(5), AppendEntries((e(6),))]
