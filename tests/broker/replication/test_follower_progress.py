import math

from tailrace.broker.replication.follower_progress import FollowerProgress
from tailrace.broker.replication.messages import Append, AppendReply
from tailrace.protocol.ids import Epoch, SpuId


def _begun(matched_end: int) -> FollowerProgress:
    link = FollowerProgress("2.1")
    link.on_sealed(matched_end, 0.0)
    return link


def _send(link: FollowerProgress, end: int, high_watermark: int = 0) -> None:
    link.on_sent(Append(Epoch(2), link.sent_end, (), high_watermark, 100, 0, frozenset()), end)


def _reply(link: FollowerProgress, matched_end: int, high_watermark: int = 0, *, missed: bool = False) -> bool:
    return link.on_reply(AppendReply(Epoch(2), SpuId(2), "2.1", matched_end, matched_end, high_watermark, missed))


def test_matched_entries_are_no_longer_in_flight() -> None:
    link = _begun(3)
    for end in (5, 8, 9):
        _send(link, end)
    _reply(link, 8)
    assert link.matched_end == 8
    assert [end for end, _ in link.in_flight] == [9]


def test_a_sign_of_life_is_not_in_flight() -> None:
    link = _begun(3)
    _send(link, 3)
    assert not link.in_flight


def test_the_lag_of_a_high_watermark_is_measured_against_the_one_sent_with_the_confirmed_records() -> None:
    link = _begun(3)
    for end, told in ((5, 1), (8, 4), (9, 100)):
        _send(link, end, told)
    lags = []
    for matched_end, known in ((5, 1), (8, 1), (8, 4), (9, 4), (9, 9)):
        _reply(link, matched_end, known)
        lags.append(link.high_watermark_lag)
    assert lags == [0, 3, 0, 5, 0]


def test_a_gap_is_filled_once() -> None:
    link = _begun(3)
    for end in (5, 8):
        _send(link, end)
    _reply(link, 3, missed=True)
    assert link.sent_end == 3 and not link.in_flight
    _send(link, 5)
    _reply(link, 3, missed=True)
    assert link.sent_end == 5


def test_entries_missed_again_were_sent_again_in_vain() -> None:
    link = _begun(3)
    told = []
    for matched_end in (3, 3, 5, 5):
        _send(link, 8)
        told.append(_reply(link, matched_end, missed=True))
        link.resent_from = None
    assert told == [False, True, False, True]


def test_matched_entries_stay_matched_when_it_is_sealed_again() -> None:
    link = _begun(3)
    _send(link, 5)
    _reply(link, 5)
    link.on_sealed(3, 1.0)
    assert link.matched_end == 5
    _reply(link, 3, missed=True)
    assert link.matched_end == 5 and link.sent_end == 3


def test_a_follower_that_matches_an_earlier_log_end_was_caught_up_then() -> None:
    link = _begun(0)
    _reply(link, 10)
    assert link.caught_up_at(10, 1.0) == math.inf
    _reply(link, 12)
    assert link.caught_up_at(20, 2.0) == 1.0
    _reply(link, 15)
    assert link.caught_up_at(30, 3.0) is None
    _reply(link, 20)
    assert link.caught_up_at(30, 4.0) == 2.0
