"""Expectations of events that wait for their acknowledgement."""

from tailrace.trigger.shards.open_events import OpenEvents
from tailrace.trigger.shards.pieces import NEVER, UNLIMITED


def test_events_expire_in_the_order_in_which_they_were_opened() -> None:
    events = OpenEvents(timeout=10.0)
    assert (events.next_time, events.lowest) == (NEVER, UNLIMITED)
    events.open([(5, 3), (6, 1)], 1.0)
    events.open([(2, 1)], 2.0)
    assert (events.next_time, events.lowest, len(events)) == (11.0, 2, 3)
    assert events.ages(4.0) == [(5, 3.0), (6, 3.0), (2, 2.0)]
    assert [(event.offset, event.attempts) for event in events.take_expired(11.0)] == [(5, 3), (6, 1)]
    assert (events.next_time, events.lowest) == (12.0, 2)
    events.open([(5, 4)], 3.0)
    events.settle(2)
    assert events.lowest == 5


def test_what_is_known_early_settles_an_event_as_soon_as_it_is_open() -> None:
    events = OpenEvents(timeout=10.0)
    for offset, is_acknowledged in {1: True, 2: True, 3: False}.items():
        events.settle_early(offset, is_acknowledged)
    events.forget_early(2)
    lost = events.open([(1, 1), (2, 1), (3, 4)], 0.0)
    assert [(event.offset, event.attempts) for event in lost] == [(3, 4)]
    assert events.ages(0.0) == [(1, 0.0)]
    assert events.settle(1) is not None
    assert events.settle(1) is None


def test_a_truncated_log_forgets_its_events() -> None:
    events = OpenEvents(timeout=10.0)
    events.open([(1, 1), (3, 1)], 0.0)
    events.truncate(3)
    assert events.ages(0.0) == [(1, 0.0)]
