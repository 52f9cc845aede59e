import pytest
import trio
import trio.testing

from tailrace.controller.connections import event_queue
from tailrace.controller.connections.event_queue import EventQueue
from tailrace.controller.state.events import Event, LeaseGracePeriodOver, ReconciliationDue


async def test_events_are_handed_over_in_order_and_adding_can_wait_for_room(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    monkeypatch.setattr(event_queue, "EVENTS_WAITING_MAX", 2)
    may_take = trio.Event()
    taken: list[Event] = []

    async def take(event: Event) -> None:
        await may_take.wait()
        taken.append(event)

    async def say() -> None:
        await events.wait_for_room()
        events.add(ReconciliationDue())

    events = EventQueue(take)
    for _ in range(2):
        events.add(LeaseGracePeriodOver())
    assert not events.has_room
    nursery.start_soon(say)
    await trio.testing.wait_all_tasks_blocked()
    events.add(LeaseGracePeriodOver())
    nursery.start_soon(events.hand_over)
    may_take.set()
    await trio.testing.wait_all_tasks_blocked()
    assert taken == [LeaseGracePeriodOver(), LeaseGracePeriodOver(), LeaseGracePeriodOver(), ReconciliationDue()]
    nursery.cancel_scope.cancel()
