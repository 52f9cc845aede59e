from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from replication_store import ListLog

from tailrace.broker.replication.copying import CopyLimits, CopyRequest, CopyResponse
from tailrace.broker.replication.entries import Entry
from tailrace.broker.replication.epoch_starts import EpochStart
from tailrace.broker.replication.follower import Follower
from tailrace.broker.replication.high_watermark import HighWatermark
from tailrace.broker.replication.messages import Append, AppendReply, Fenced, Hello, Message, Seal, SealReply
from tailrace.broker.replication.policy import CopySet, CopySetsPolicy, LivePolicy, QuorumPolicy, ReplicationPolicy
from tailrace.broker.replication.ready import (
    AdvanceLogStart,
    AppendEntries,
    EndDoubt,
    ExpectStamped,
    Persist,
    Ready,
    Restamp,
    StorePromise,
    Sync,
    Truncate,
)
from tailrace.broker.replication.sealing import Promise
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

LEADER, FOLLOWER = SpuId(1), SpuId(2)


def e(base: int, epoch: int = 1, content: int | None = None) -> Entry:
    return Entry(base, base + 1, Epoch(epoch), content=base if content is None else content)


def _log(entries: list[Entry]) -> ListLog:
    log = ListLog()
    for entry in entries:
        log.append(entry)
    return log


def _follower(
    entries: list[Entry],
    *,
    high_watermark: int = 0,
    promised: int = 1,
    epoch: int = 2,
    in_doubt: bool = False,
    policy: ReplicationPolicy | None = None,
) -> Follower:
    follower = Follower(
        FOLLOWER,
        "2.1",
        LEADER,
        Epoch(epoch),
        log=_log(entries),
        promise=Promise(Epoch(promised)),
        high_watermark=HighWatermark(high_watermark),
        in_doubt=in_doubt,
        policy=policy or LivePolicy(),
    )
    follower.on_linked(0.0)
    return follower


def _append(
    base: int, *entries: Entry, epoch: int = 2, high_watermark: int = 0, log_end: int = 100, log_start: int = 0
) -> Append:
    return Append(Epoch(epoch), base, entries, high_watermark, log_end, log_start, frozenset({LEADER}))


def _after(follower: Follower, append: Append) -> Ready:
    follower.take_ready()
    follower.on_append(append)
    return follower.take_ready()


def _said(ready: Ready) -> Message:
    ((receiver, message),) = ready.send
    assert receiver == LEADER
    return message


def _reply(
    matched_end: int, log_end: int, *, high_watermark: int = 0, missed: bool = False, log_start: int = 0
) -> AppendReply:
    return AppendReply(Epoch(2), FOLLOWER, "2.1", matched_end, log_end, high_watermark, missed, log_start)


def test_it_promises_the_epoch_and_says_hello() -> None:
    ready = _follower([]).take_ready()
    assert ready.persist == [StorePromise(Epoch(2))]
    assert _said(ready) == Hello(Epoch(2), FOLLOWER, "2.1")


def test_it_truncates_nothing_when_it_starts() -> None:
    """The high watermark that the follower knows may be smaller than what was acknowledged."""
    ready = _follower([e(0), e(1)], high_watermark=1).take_ready()
    assert ready.persist == [StorePromise(Epoch(2))]


def test_it_says_hello_again_while_it_hears_nothing() -> None:
    follower = _follower([])
    follower.take_ready()
    follower.on_deadline(0.9)
    assert follower.take_ready().send == []
    follower.on_deadline(1.0)
    assert _said(follower.take_ready()) == Hello(Epoch(2), FOLLOWER, "2.1")
    assert follower.deadline == 2.0


def test_it_responds_to_a_seal_with_what_it_holds() -> None:
    follower = _follower([e(0), e(1), e(2)], high_watermark=1, in_doubt=True)
    follower.take_ready()
    follower.on_seal(Seal(Epoch(2), entries_from=1))
    assert _said(follower.take_ready()) == SealReply(Epoch(2), FOLLOWER, "2.1", 1, 3, True, (e(1), e(2)))
    follower.on_seal(Seal(Epoch(2), entries_from=2))
    assert _said(follower.take_ready()) == SealReply(Epoch(2), FOLLOWER, "2.1", 1, 3, True, (e(1), e(2)))
    follower.on_seal(Seal(Epoch(2), entries_from=None))
    assert _said(follower.take_ready()) == SealReply(Epoch(2), FOLLOWER, "2.1", 1, 3, True, ())


def test_a_newer_epoch_is_promised_before_the_answer() -> None:
    follower = _follower([])
    follower.take_ready()
    follower.on_seal(Seal(Epoch(5), entries_from=None))
    ready = follower.take_ready()
    assert ready.persist == [StorePromise(Epoch(5))]
    assert isinstance(_said(ready), SealReply)


def test_an_earlier_epoch_is_refused_and_nothing_changes() -> None:
    follower = _follower([e(0)], promised=3, epoch=3)
    ready = _after(follower, _append(0, e(0, 2, content=9), epoch=2, log_end=1))
    assert ready.persist == []
    assert _said(ready) == Fenced(Epoch(3))
    follower.on_seal(Seal(Epoch(2), None))
    assert _said(follower.take_ready()) == Fenced(Epoch(3))


def test_a_promise_that_the_store_has_given_meanwhile_counts() -> None:
    follower = _follower([], epoch=2)
    assert _after(follower, _append(0, e(0, 2))).persist
    follower._promise.renew(Epoch(3))
    ready = _after(follower, _append(1, e(1, 2)))
    assert ready.persist == []
    assert _said(ready) == Fenced(Epoch(3))


def test_new_entries_are_appended() -> None:
    ready = _after(_follower([e(0)], high_watermark=1), _append(1, e(1, 2), e(2, 2)))
    assert ready.persist == [AppendEntries((e(1, 2), e(2, 2)))]
    assert _said(ready) == _reply(3, 3, high_watermark=1)


def test_identical_entries_are_stamped() -> None:
    ready = _after(_follower([e(0), e(1), e(2)]), _append(0, e(0, 2), e(1, 2)))
    assert ready.persist == [Restamp(0, 2, Epoch(2))]
    assert _said(ready) == _reply(2, 3)


def test_the_log_is_truncated_at_the_first_difference() -> None:
    follower = _follower([e(0), e(1, content=91), e(2, content=92)])
    ready = _after(follower, _append(0, e(0, 2), e(1, 2)))
    assert ready.persist == [Restamp(0, 1, Epoch(2)), Truncate(1), AppendEntries((e(1, 2),))]
    assert _said(ready) == _reply(2, 2)


def test_entries_that_the_leader_lacks_are_truncated_when_all_else_matches() -> None:
    ready = _after(_follower([e(0), e(1), e(2)], high_watermark=1), _append(1, e(1, 2), log_end=2))
    assert ready.persist == [Restamp(1, 2, Epoch(2)), Truncate(2)]
    assert _said(ready) == _reply(2, 2, high_watermark=1)


def test_a_late_message_with_a_smaller_log_end_truncates_nothing() -> None:
    follower = _follower([e(0), e(1), e(2)], high_watermark=1)
    _after(follower, _append(1, e(1), e(2), log_end=3))
    ready = _after(follower, _append(1, e(1), log_end=2))
    assert ready.persist == []
    assert _said(ready) == _reply(3, 3, high_watermark=1)


def test_entries_beyond_a_gap_are_dropped_and_reported_as_missed() -> None:
    ready = _after(_follower([e(0)], high_watermark=1), _append(2, e(2, 2), high_watermark=3))
    assert ready.persist == []
    assert _said(ready) == _reply(1, 1, high_watermark=1, missed=True)


def test_the_high_watermark_moves_only_where_the_log_matches() -> None:
    follower = _follower([e(0), e(1, content=91)], high_watermark=1)
    assert _said(_after(follower, _append(1, high_watermark=2))) == _reply(1, 2, high_watermark=1)
    assert _said(_after(follower, _append(1, e(1, 2), high_watermark=2))) == _reply(2, 2, high_watermark=2)


def test_doubt_ends_with_the_leaders_log() -> None:
    follower = _follower([e(0)], in_doubt=True)
    assert EndDoubt() not in _after(follower, _append(0, e(0), log_end=2)).persist
    assert EndDoubt() in _after(follower, _append(1, e(1), log_end=2)).persist
    assert not follower.in_doubt


def test_records_that_the_leader_has_deleted_are_deleted() -> None:
    follower = _follower([e(0), e(1), e(2)], high_watermark=1)
    ready = _after(follower, _append(1, e(1), e(2), high_watermark=3, log_end=3, log_start=2))
    assert ready.persist == [AdvanceLogStart(2)]


def test_a_log_that_ends_before_the_leaders_log_start_starts_over() -> None:
    ready = _after(_follower([e(0)], high_watermark=1), _append(4, e(4), log_start=5, high_watermark=5))
    assert ready.persist == [AdvanceLogStart(4), AppendEntries((e(4),)), AdvanceLogStart(5)]
    assert _said(ready) == _reply(5, 5, high_watermark=5, log_start=5)


def test_a_log_that_starts_over_gets_the_earlier_producer_state() -> None:
    append = replace(_append(4, e(4), log_start=4, high_watermark=5), producers=b"who")
    assert _after(_follower([e(0)], high_watermark=1), append).persist[0] == AdvanceLogStart(4, b"who")


def test_entries_behind_the_leaders_log_start_are_kept() -> None:
    """The leader may need the follower to have acknowledged these entries."""
    own = [e(base) for base in range(7)]
    ready = _after(_follower(own, high_watermark=1), _append(4, e(4), e(5), log_start=4, high_watermark=5))
    assert ready.persist == [AdvanceLogStart(4)]
    assert _said(ready) == _reply(6, 7, high_watermark=5, log_start=4)


def test_a_log_may_be_all_deleted() -> None:
    ready = _after(_follower([e(0), e(1)], high_watermark=1), _append(9, log_end=9, log_start=9, high_watermark=9))
    assert ready.persist == [AdvanceLogStart(9)]
    assert _said(ready) == _reply(9, 9, high_watermark=9, log_start=9)


def test_a_batch_that_was_compacted_is_committed_whatever_the_leader_says() -> None:
    """The message may have been made before the compaction, and its bytes read after it."""
    follower = _follower([e(0)], high_watermark=1)
    assert _said(_after(follower, _append(1, e(3, 2), high_watermark=1))) == _reply(4, 4, high_watermark=3)


COMPACTED = Append(Epoch(2), 1, (e(3, 2),), 3, 100, 0, frozenset({LEADER, FOLLOWER}))
"""An Append after a compaction. The follower still has the removed entries, and this one with another epoch."""


def _kept_of_compacted(policy: ReplicationPolicy, *, append: Append = COMPACTED, in_doubt: bool = False) -> bool:
    own = [e(number) for number in range(6)]
    follower = _follower(own, high_watermark=1, policy=policy, in_doubt=in_doubt)
    return not any(isinstance(change, Truncate) for change in _after(follower, append).persist)


def test_entries_committed_only_with_this_store_are_not_compared() -> None:
    """It could not be distinguished from another log, and truncated entries would be missing until the leader has sent
    them."""
    assert _kept_of_compacted(LivePolicy())
    assert _kept_of_compacted(QuorumPolicy(3, 1, 3))
    one = CopySet(frozenset({LEADER, FOLLOWER}), QuorumPolicy(2, 1, 2))
    assert _kept_of_compacted(CopySetsPolicy((one,)))
    assert _kept_of_compacted(CopySetsPolicy((one, one)))


def test_entries_that_may_be_committed_without_this_store_are_compared() -> None:
    assert not _kept_of_compacted(LivePolicy(), append=replace(COMPACTED, live_replicas=frozenset({LEADER})))
    assert not _kept_of_compacted(QuorumPolicy(3, 2, 2))
    one, other = (CopySet(frozenset({LEADER, spu}), QuorumPolicy(2, 1, 2)) for spu in (FOLLOWER, SpuId(3)))
    assert not _kept_of_compacted(CopySetsPolicy((one, other)))
    assert not _kept_of_compacted(CopySetsPolicy((CopySet(frozenset({LEADER}), QuorumPolicy(1, 1, 1)),)))


def test_a_store_in_doubt_may_lack_what_was_committed_with_it() -> None:
    assert not _kept_of_compacted(LivePolicy(), in_doubt=True)


def test_only_the_spec_of_a_later_epoch_says_which_stores_commit_in_it() -> None:
    later = replace(COMPACTED, epoch=Epoch(3))
    assert not _kept_of_compacted(QuorumPolicy(3, 1, 3), append=later)
    follower = _follower([e(number) for number in range(6)], high_watermark=1, policy=QuorumPolicy(3, 2, 2))
    follower.use_policy(QuorumPolicy(3, 1, 3), Epoch(3))
    assert _after(follower, later).persist == [StorePromise(Epoch(3)), Restamp(3, 4, Epoch(2))]


def test_matched_entries_are_synced_once_before_the_reply() -> None:
    follower = _follower([e(0)], high_watermark=0)
    follower.syncs_before_acknowledging = True
    assert _after(follower, _append(0, e(0), e(1, 2))).persist == [AppendEntries((e(1, 2),)), Sync()]
    assert _after(follower, _append(2)).persist == []


def test_it_compares_epochs_only_when_the_leader_asks_for_it_and_once() -> None:
    follower = _follower([e(0), e(1, 2), e(2, 2)], high_watermark=3, promised=3, epoch=3)
    epochs = (EpochStart(Epoch(1), 0), EpochStart(Epoch(3), 1))
    follower.take_ready()
    follower.on_seal(Seal(Epoch(3), None, log_start=0, log_end=2, epochs=epochs))
    sealed = _said(follower.take_ready())
    assert isinstance(sealed, SealReply) and sealed.high_watermark == 1
    ready = _after(follower, _append(1, e(1, 3, content=91), epoch=3, high_watermark=2, log_end=2))
    assert ready.persist == [Truncate(1), AppendEntries((e(1, 3, content=91),))]
    follower.on_seal(Seal(Epoch(3), None, log_start=0, log_end=0))
    assert follower.matched_end == 2


def test_in_a_newer_epoch_only_committed_entries_match() -> None:
    follower = _follower([e(0), e(1)], high_watermark=1)
    _after(follower, _append(1, e(1, 2)))
    assert follower.matched_end == 2
    _after(follower, _append(2, epoch=3))
    assert follower.matched_end == 1


def test_after_an_unclean_election_records_deleted_from_another_log_are_sent_again() -> None:
    """It was committed under a leader whose records are lost, so this leader may have other records there."""
    follower = _follower([e(base) for base in range(9)], high_watermark=9)
    assert isinstance(follower._log, ListLog)
    follower._log.advance_log_start(6)
    follower.take_ready()
    epochs = (EpochStart(Epoch(1), 0), EpochStart(Epoch(2), 4))
    follower.on_seal(Seal(Epoch(2), None, log_start=1, log_end=8, epochs=epochs))
    sealed = _said(follower.take_ready())
    assert isinstance(sealed, SealReply) and sealed.high_watermark == 1 < sealed.log_start
    sign_of_life = _append(1, high_watermark=8, log_start=1, log_end=8)
    assert _said(_after(follower, sign_of_life)) == _reply(1, 9, high_watermark=9, log_start=6)
    ready = _after(follower, _append(1, e(1), e(2), high_watermark=8, log_start=1, log_end=8))
    assert ready.persist == [Truncate(1), AppendEntries((e(1), e(2)))]
    assert _said(ready) == _reply(3, 3, high_watermark=3, log_start=1)


@pytest.mark.parametrize(
    ("committed_in", "persist"),
    [
        (1, []),
        (3, [Restamp(3, 4, Epoch(5))]),
        (4, [Truncate(0), AppendEntries((e(3, 5),))]),
        (NO_EPOCH, [Truncate(0), AppendEntries((e(3, 5),))]),
    ],
)
def test_a_stamp_of_the_commit_epoch_or_a_later_one_shows_what_the_log_has(
    committed_in: int, persist: list[Persist]
) -> None:
    """The leader has compacted the log, and the rest has another epoch."""
    follower = _follower([e(0), e(1), e(2, 3), e(3)], promised=3, epoch=5, policy=QuorumPolicy(3, 2, 2))
    append = replace(_append(0, e(3, 5), epoch=5, high_watermark=4), high_watermark_epoch=Epoch(committed_in))
    assert _after(follower, append).persist == persist


def test_entries_behind_the_matched_end_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be many such entries, and many Appends that would read them."""
    asked: list[tuple[int, int]] = []
    entries = ListLog.entries

    def listening(self: ListLog, start: int, end: int) -> Iterator[Entry]:
        asked.append((start, end))
        return entries(self, start, end)

    own = [e(base) for base in range(9)]
    follower = _follower(own, promised=3, epoch=5, policy=QuorumPolicy(3, 2, 2))
    monkeypatch.setattr(ListLog, "entries", listening)
    for base in range(9):
        append = replace(_append(base, e(base, 5), epoch=5, high_watermark=9), high_watermark_epoch=Epoch(3))
        assert _after(follower, append).persist == [Restamp(base, base + 1, Epoch(5))]
    assert asked.count((0, 9)) == 1 and all(end - start == 1 for start, end in asked[1:])


def test_when_its_disk_fails_it_says_so_and_nothing_else() -> None:
    follower = _follower([e(0)])
    follower.take_ready()
    follower.on_failed()
    failed = Hello(Epoch(2), FOLLOWER, "2.1", has_failed=True)
    assert _said(follower.take_ready()) == failed
    follower.on_append(_append(0, e(0, 2)))
    follower.on_seal(Seal(Epoch(3), None))
    follower.on_deadline(100.0)
    ready = follower.take_ready()
    assert (ready.persist, ready.send) == ([], [])
    follower.on_linked(101.0)
    assert _said(follower.take_ready()) == failed


def test_missing_entries_from_before_an_epoch_do_not_begin_it() -> None:
    follower = _follower([e(0)], high_watermark=1)
    epochs = (EpochStart(Epoch(0), 0), EpochStart(Epoch(1), 3))
    recovered = replace(_append(1, e(1, 2), high_watermark=1), stamped_end=4, epochs=epochs)
    expected = ExpectStamped(4, (EpochStart(Epoch(0), 1), EpochStart(Epoch(1), 3)))
    assert _after(follower, recovered).persist == [expected, AppendEntries((e(1, 2),))]
    recovered = replace(_append(2, e(2, 2), high_watermark=1), stamped_end=4)
    assert _after(follower, recovered).persist == [AppendEntries((e(2, 2),))], "once is enough"


def test_a_log_that_ends_within_the_leaders_first_entry_is_truncated_before_it() -> None:
    """After an unclean election the leader has deleted up to there, and this follower has another log."""
    follower = _follower([Entry(0, 3, Epoch(1), 7)], high_watermark=3)
    append = _append(3, Entry(1, 4, Epoch(2), 8), log_start=3, high_watermark=3)
    assert _after(follower, append).persist[:2] == [Truncate(0), AppendEntries(append.entries)]


def test_no_epoch_starts_are_noted_for_entries_that_recovery_has_not_stamped() -> None:
    follower = _follower([e(0)], high_watermark=1)
    new = replace(_append(1, e(1, 2), high_watermark=1), stamped_end=1)
    assert _after(follower, new).persist == [AppendEntries((e(1, 2),))]


def test_entries_taken_as_committed_are_synced_before_a_reply_about_missed_ones() -> None:
    follower = _follower([e(0), e(1, 3), e(2, 3)], promised=3, epoch=5, policy=QuorumPolicy(3, 2, 2))
    follower.syncs_before_acknowledging = True
    append = replace(_append(9, e(9, 5), epoch=5, high_watermark=3), high_watermark_epoch=Epoch(3))
    ready = _after(follower, append)
    assert ready.persist == [Sync()]
    assert _said(ready) == replace(_reply(3, 3, high_watermark=3, missed=True), epoch=Epoch(5))
    assert _after(follower, append).persist == []


def test_entries_synced_in_an_earlier_epoch_may_have_been_truncated_since() -> None:
    follower = _follower([])
    follower.syncs_before_acknowledging = True
    assert isinstance(follower._log, ListLog)
    for epoch in (2, 3):
        entry = e(0, epoch, content=epoch)
        assert Sync() in _after(follower, _append(0, entry, epoch=epoch)).persist
        follower._log.cut(0)
        follower._log.append(entry)


def test_what_later_leaders_had_is_computed_again_in_each_epoch() -> None:
    follower = _follower([e(0), e(1, 3), e(2, 3)], promised=3, epoch=5, policy=QuorumPolicy(3, 2, 2))
    assert isinstance(follower._log, ListLog)
    append = replace(_append(1, e(1, 5, content=9), epoch=5, high_watermark=1), high_watermark_epoch=Epoch(3))
    assert Truncate(1) in _after(follower, append).persist
    follower._log.cut(1)
    follower._log.append(e(1, 5, content=9))
    _after(follower, replace(_append(1, epoch=6, high_watermark=3), high_watermark_epoch=Epoch(3)))
    assert follower.matched_end == 2


# copying from other followers

HOLDER, OTHER_HOLDER = SpuId(3), SpuId(4)
LIMITS = CopyLimits(lacking_bytes_min=20, portion_bytes_max=5)


def _far_behind(*, copy_limits: CopyLimits | None = LIMITS, spec_epoch: int = 2) -> Follower:
    follower = _follower([])
    follower.use_policy(LivePolicy(), Epoch(spec_epoch), copy_limits)
    follower.take_ready()
    return follower


def _far_ahead(base: int, *entries: Entry, high_watermark: int = 50, stamped_end: int = 50) -> Append:
    live = frozenset({LEADER, HOLDER, OTHER_HOLDER})
    epochs = (EpochStart(Epoch(1), base),)
    return Append(Epoch(2), base, entries, high_watermark, 60, 0, live, stamped_end, epochs, Epoch(2))


def _carried_out(follower: Follower, ready: Ready) -> Ready:
    for effect in ready.persist:
        if isinstance(effect, AppendEntries):
            for entry in effect.entries:
                follower._log.append(entry)  # type: ignore[attr-defined]
    return ready


def _begun(follower: Follower) -> CopyRequest:
    ready = _carried_out(follower, _after(follower, _far_ahead(0, e(0), e(1))))
    assert ready.copy_request is not None
    return ready.copy_request


def _handed_over(follower: Follower, asked: CopyRequest, *bases: int, high_watermark: int = 50) -> Ready:
    follower.on_copied(CopyResponse(asked, tuple(map(e, bases)), high_watermark))
    return _carried_out(follower, follower.take_ready())


def test_a_follower_that_lacks_a_lot_copies_and_does_not_reply_to_its_leader() -> None:
    follower = _far_behind()
    ready = _after(follower, _far_ahead(0, e(0), e(1)))
    assert ready.persist == [
        ExpectStamped(50, (EpochStart(Epoch(1), 0),)),
        AppendEntries((e(0), e(1))),
    ]
    assert ready.copy_request == CopyRequest(HOLDER, Epoch(2), 2, 5, is_first=True)
    assert ready.send == []


def test_copied_entries_are_committed_and_nothing_is_promised_for_them() -> None:
    follower = _far_behind()
    ready = _handed_over(follower, _begun(follower), 2, 3)
    assert ready.persist == [AppendEntries((e(2), e(3)))]
    assert ready.copy_request == CopyRequest(HOLDER, Epoch(2), 4, 5)
    assert ready.send == []
    assert (follower.matched_end, follower._high_watermark.value) == (4, 4)


def test_when_everything_is_copied_the_leader_gets_a_reply() -> None:
    follower = _far_behind()
    ready = _handed_over(follower, _begun(follower), *range(2, 50))
    assert _said(ready) == _reply(50, 50, high_watermark=50)
    assert ready.copy_request is None
    assert ready.copy_end is not None
    assert (ready.copy_end.records, ready.copy_end.reason) == (48, "done")


def test_messages_of_the_leader_during_a_copy_are_handled_as_usual() -> None:
    follower = _far_behind()
    asked = _begun(follower)
    ready = _carried_out(follower, _after(follower, _far_ahead(2, e(2), e(3), high_watermark=55, stamped_end=55)))
    assert ready.persist == [AppendEntries((e(2), e(3)))]
    assert (ready.send, ready.copy_request) == ([], None)
    assert _handed_over(follower, asked, 2, 3, 4).persist == [AppendEntries((e(4),))]


def test_when_no_source_has_anything_the_leader_sends_all_and_no_source_is_asked_again() -> None:
    follower = _far_behind()
    asked = _begun(follower)
    follower.on_copied(CopyResponse(asked, failure="it is not there"))
    asked_next = follower.take_ready().copy_request
    assert asked_next is not None and asked_next.source == OTHER_HOLDER
    ready = _handed_over(follower, asked_next)
    assert _said(ready) == _reply(2, 2, high_watermark=2)
    ready = _carried_out(follower, _after(follower, _far_ahead(2, e(2), e(3))))
    assert _said(ready) == _reply(4, 4, high_watermark=4)


def test_a_source_that_was_not_live_for_a_while_is_asked_again() -> None:
    follower = _far_behind()
    follower.on_copied(CopyResponse(_begun(follower), failure="it is not there"))
    asked = follower.take_ready().copy_request
    assert asked is not None
    _handed_over(follower, asked)
    _carried_out(follower, _after(follower, replace(_far_ahead(2, e(2), e(3)), live_replicas=frozenset({LEADER}))))
    again = _after(follower, _far_ahead(4, e(4), e(5))).copy_request
    assert again is not None and again.source == HOLDER


def test_nothing_is_copied_after_an_unclean_election_or_before_it_is_known_that_there_was_none() -> None:
    for follower in (_far_behind(copy_limits=None), _far_behind(spec_epoch=1)):
        ready = _after(follower, _far_ahead(0, e(0), e(1)))
        assert ready.copy_request is None
        assert _said(ready) == _reply(2, 2, high_watermark=2)


def test_nothing_is_copied_if_the_log_has_entries_behind_the_matched_end() -> None:
    follower = _follower([e(0), e(1), e(2)])
    follower.use_policy(LivePolicy(), Epoch(2), LIMITS)
    assert _after(follower, _far_ahead(0, e(0), e(1))).copy_request is None


def test_a_follower_that_lacks_little_gets_it_from_its_leader() -> None:
    follower = _far_behind(copy_limits=CopyLimits(lacking_bytes_min=49))
    assert _after(follower, _far_ahead(0, e(0), e(1))).copy_request is None


def test_a_copy_ends_with_its_epoch() -> None:
    follower = _far_behind()
    asked = _begun(follower)
    follower.on_seal(Seal(Epoch(3), None))
    ready = follower.take_ready()
    assert ready.copy_end is not None and ready.copy_end.reason == "another epoch has begun"
    assert isinstance(_said(ready), SealReply)
    ready = _handed_over(follower, asked, 2, 3)
    assert (ready.persist, ready.send, ready.copy_request) == ([], [], None)


def test_a_copy_ends_with_its_disk() -> None:
    follower = _far_behind()
    asked = _begun(follower)
    follower.on_failed()
    assert _said(follower.take_ready()) == Hello(Epoch(2), FOLLOWER, "2.1", has_failed=True)
    assert _handed_over(follower, asked, 2, 3).persist == []
