from tailrace.broker.replication.copying import Copying, CopyRequest, CopyResponse, lacking_bytes, rotated
from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.messages import Append
from tailrace.protocol.ids import Epoch, SpuId

ONE, OTHER = SpuId(3), SpuId(4)
EPOCH = Epoch(2)


def e(base: int, *, kind: EntryKind = EntryKind.EVENT, count: int = 1) -> Entry:
    return Entry(base, base + count, Epoch(1), content=base, kind=kind, size=10)


def _told(*entries: Entry, high_watermark: int = 100, stamped_end: int = 100) -> Append:
    return Append(EPOCH, 0, entries, high_watermark, 200, 0, frozenset({ONE, OTHER}), stamped_end)


def _copying(end: int = 100, high_watermark: int = 100) -> Copying:
    return Copying(_told(high_watermark=high_watermark), end, [ONE, OTHER], 1000)


def _asked(copying: Copying, offset: int) -> CopyRequest:
    asked = copying.next_request(offset)
    assert asked is not None
    return asked


def test_missing_entries_are_estimated_to_be_as_large_as_those_sent() -> None:
    assert lacking_bytes(_told(e(0), e(1)), 2) == 98 * 10
    assert lacking_bytes(_told(e(0, count=2)), 2) == 98 * 5


def test_uncommitted_entries_and_those_of_unknown_epochs_are_not_copied() -> None:
    assert lacking_bytes(_told(e(0), high_watermark=11), 1) == 100
    assert lacking_bytes(_told(e(0), stamped_end=11), 1) == 100
    assert lacking_bytes(_told(e(0), stamped_end=0), 1) == 0
    assert lacking_bytes(_told(), 0) == 0


def test_not_everybody_asks_the_same_one_first() -> None:
    assert rotated({ONE, OTHER}, 4) == [ONE, OTHER]
    assert rotated({ONE, OTHER}, 7) == [OTHER, ONE]
    assert rotated((), 7) == []


def test_it_asks_one_portion_after_the_other_until_all_is_there() -> None:
    copying = _copying(end=4)
    asked = _asked(copying, 0)
    assert asked == CopyRequest(ONE, EPOCH, 0, 1000, is_first=True)
    assert copying.take(CopyResponse(asked, (e(0), e(1)), 50), 0) == (e(0), e(1))
    asked = _asked(copying, 2)
    assert asked == CopyRequest(ONE, EPOCH, 2, 1000)
    assert copying.take(CopyResponse(asked, (e(2), e(3), e(4)), 50), 2) == (e(2), e(3)), "4 is beyond the end"
    assert copying.next_request(4) is None
    over = copying.outcome(4)
    assert (over.records, over.size_bytes, over.sources, over.reason) == (4, 40, (ONE,), "done")


def test_nothing_is_taken_beyond_the_high_watermark_of_its_holder_or_of_the_leader() -> None:
    copying = _copying()
    assert copying.take(CopyResponse(_asked(copying, 0), (e(0), e(1), e(2)), 2), 0) == (e(0), e(1))
    copying = _copying(high_watermark=1)
    assert copying.take(CopyResponse(_asked(copying, 0), (e(0), e(1), e(2)), 3), 0) == (e(0),)
    copying.on_append(_told(high_watermark=2))
    assert copying.take(CopyResponse(_asked(copying, 1), (e(1), e(2)), 3), 1) == (e(1),)


def test_a_late_message_takes_nothing_back() -> None:
    copying = _copying(high_watermark=5)
    copying.on_append(_told(high_watermark=3))
    assert copying.end == 5


def test_entries_that_the_leader_has_sent_meanwhile_are_left_out() -> None:
    copying = _copying()
    asked = _asked(copying, 0)
    assert copying.take(CopyResponse(asked, (e(0), e(1), e(2)), 50), 2) == (e(2),)
    assert copying.take(CopyResponse(asked, (e(0),), 50), 3) == ()
    assert _asked(copying, 3).source == ONE, "it may have what follows"


def test_only_complete_entries_without_gaps_are_taken() -> None:
    copying = _copying()
    assert copying.take(CopyResponse(_asked(copying, 0), (e(0), e(2)), 50), 0) == (e(0),)
    assert copying.take(CopyResponse(_asked(copying, 1), (e(2),), 50), 1) == ()
    assert copying.exhausted == set(), "it handed over some"
    compacted = e(1, kind=EntryKind.COMPACTED)
    assert copying.take(CopyResponse(_asked(copying, 1), (compacted,), 50), 1) == ()
    assert copying.exhausted == {OTHER}
    assert copying.next_request(1) is None
    assert copying.outcome(1).reason == "no source has more"


def test_after_a_source_that_does_not_respond_the_next_one_is_asked() -> None:
    copying = _copying()
    assert copying.take(CopyResponse(_asked(copying, 0), (e(0),), 50), 0) == (e(0),)
    assert copying.take(CopyResponse(_asked(copying, 1), failure="it is not there"), 1) == ()
    assert copying.exhausted == {ONE}
    assert _asked(copying, 1).source == OTHER


def test_an_answer_to_another_question_does_not_count() -> None:
    copying = _copying()
    first = _asked(copying, 0)
    assert copying.is_waiting_for(first)
    _asked(copying, 1)
    assert not copying.is_waiting_for(first)
