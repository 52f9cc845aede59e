import asyncio

import pytest

from tailrace.trigger.work import Output, Shard
from tailrace.trigger.worker.context import Context
from tailrace.trigger.worker.event import Event, TriggerInfo
from tailrace.trigger.worker.event_decoder import make_event


class NoVerdicts:
    def acknowledge(self, event: Event) -> None: ...

    def fail(self, event: Event, reason: str) -> None: ...


def event_at(offset: int) -> Event:
    trigger = TriggerInfo("kafka-cluster", "billing")
    return make_event(b"", shard=Shard("orders", 3), offset=offset, trigger=trigger, verdicts=NoVerdicts())


@pytest.fixture
def emitted() -> list[tuple[Event | None, Output]]:
    return []


@pytest.fixture
def context(emitted: list[tuple[Event | None, Output]]) -> Context:
    return Context(
        1,
        "billing",
        "kafka-cluster",
        lambda event, output: emitted.append((event, output)),
        lambda shard, offset: None,
    )


def test_what_is_emitted_belongs_to_the_event_that_is_handled(
    context: Context, emitted: list[tuple[Event | None, Output]]
) -> None:
    first, other = event_at(7), event_at(8)
    context.handled = first
    context.emit("out", "value", key="key")
    context.emit("out", event=other)
    assert emitted == [(first, Output("out", b"key", b"value")), (other, Output("out", None, None))]


def test_a_task_keeps_its_event_after_the_handler_has_returned(context: Context) -> None:
    seen = []

    async def later() -> None:
        await asyncio.sleep(0)
        seen.append(context.current_event())

    async def handler() -> asyncio.Task[None]:
        return asyncio.create_task(later())

    async def calls() -> None:
        tasks = []
        for event in events:
            context.handled_in_task.set(event)
            tasks.append(await handler())
        await asyncio.gather(*tasks)

    events = [event_at(offset) for offset in range(3)]
    with asyncio.Runner() as runner:
        runner.run(calls())
    assert seen == events


def test_nuclio_handlers_find_their_response(context: Context) -> None:
    response = context.Response(body="done", status_code=201)
    assert (response.body, response.status_code, response.headers) == ("done", 201, {})
