import threading

import pytest

from tailrace.trigger.work import Output, Settled, Shard
from tailrace.trigger.worker.event import Event, TriggerInfo
from tailrace.trigger.worker.event_decoder import make_event
from tailrace.trigger.worker.held_events import HeldEvents
from tailrace.trigger.worker.worker_page import OPEN

SHARD, OTHER = Shard("orders", 0), Shard("orders", 1)
NUMBERS = memoryview(bytearray(64)).cast("q")


class NoVerdicts:
    def acknowledge(self, event: Event) -> None: ...

    def fail(self, event: Event, reason: str) -> None: ...


def event_at(offset: int, shard: Shard = SHARD) -> Event:
    return make_event(
        b"", shard=shard, offset=offset, trigger=TriggerInfo("kafka-cluster", "billing"), verdicts=NoVerdicts()
    )


@pytest.fixture
def held_events() -> HeldEvents:
    return HeldEvents(threading.Lock(), NUMBERS)


def test_an_event_that_is_acknowledged_within_its_chunk_leaves_with_the_outcome(held_events: HeldEvents) -> None:
    first, second = event_at(1), event_at(2)
    held_events.begin([first])
    held_events.emit(first, Output("out", None, b"1"))
    assert not held_events.is_settled()
    assert not held_events.acknowledge(first)
    assert not held_events.is_settled()  # its output is not sent
    held_events.begin([second])
    held_events.emit(second, Output("out", None, b"2"))
    assert NUMBERS[OPEN] == 1
    assert held_events.end_chunk() == ((2,), (Output("out", None, b"1"),))
    assert held_events.take_settled() == ()


def test_an_event_that_is_acknowledged_later_is_settled_with_its_outputs_once(held_events: HeldEvents) -> None:
    event = event_at(1)
    held_events.begin([event])
    held_events.end_chunk()
    held_events.emit(event, Output("out", None, b"1"))
    assert held_events.acknowledge(event)
    assert not held_events.acknowledge(event)
    assert held_events.take_settled() == (Settled(SHARD, 1, True, (Output("out", None, b"1"),)),)
    assert (held_events.take_settled(), NUMBERS[OPEN]) == ((), 0)


def test_an_acknowledgement_may_cover_earlier_events_of_its_shard(held_events: HeldEvents) -> None:
    held_events.begin([event_at(1), event_at(2)])
    held_events.end_chunk()
    held_events.begin([event_at(1, OTHER)])
    held_events.end_chunk()
    held_events.begin([event_at(5), event_at(6)])
    assert held_events.acknowledge_up_to(SHARD, 5)
    assert held_events.take_settled() == (Settled(SHARD, 1, True), Settled(SHARD, 2, True))
    assert held_events.end_chunk() == ((6,), ())
    assert not held_events.acknowledge_up_to(SHARD, 5)
    assert NUMBERS[OPEN] == 2


def test_events_of_shards_are_told_apart(held_events: HeldEvents) -> None:
    event, other = event_at(1), event_at(1, OTHER)
    held_events.begin([event])
    held_events.end_chunk()
    held_events.begin([other])
    held_events.acknowledge(event)
    assert held_events.end_chunk() == ((1,), ())
    assert held_events.take_settled() == (Settled(SHARD, 1, True),)


def test_a_failed_event_is_not_open_and_emits_nothing(held_events: HeldEvents) -> None:
    event = event_at(1)
    held_events.begin([event])
    held_events.emit(event, Output("out", None, b"1"))
    assert held_events.fail([event])
    assert held_events.end_chunk() == ((), ())
    assert not held_events.acknowledge(event)
    held_events.begin([event])
    held_events.acknowledge(event)
    assert not held_events.fail([event])  # it was acknowledged before it failed


def test_an_event_that_is_handed_out_again_is_open_once(held_events: HeldEvents) -> None:
    before, again = event_at(1), event_at(1)
    held_events.begin([before])
    held_events.end_chunk()
    held_events.begin([again])
    assert NUMBERS[OPEN] == 1
    held_events.acknowledge(before)
    assert held_events.end_chunk() == ((), ())


def test_outputs_need_an_open_event(held_events: HeldEvents) -> None:
    event = event_at(1)
    with pytest.raises(RuntimeError, match="emit before the acknowledgement"):
        held_events.emit(event, Output("out", None, None))
    with pytest.raises(RuntimeError, match="name the event"):
        held_events.emit(None, Output("out", None, None))
