import asyncio
import runpy
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.trigger import trigger
from tailrace.trigger.testing import FunctionUnderTest, event, invoke, invoke_async, invoke_batch


@trigger("orders", group="billing")
def bill(context: Any, event: Any) -> str:
    context.logger.info_with("Billed %s", event.key.decode(), amount=3)
    context.emit("invoices", key=event.key, value={"order": event.body.decode()}, headers={"from": event.topic})
    return "done"


@trigger("orders", batch_size=10)
def sum_up(context: Any, events: Any) -> int:
    for each in events:
        if each.body == b"bad":
            each.fail("no number")
    return sum(int(each.body) for each in events if each.body != b"bad")


async def slow(context: Any, event: Any) -> float:
    await asyncio.sleep(0)
    context.emit("out", event.body)
    return asyncio.get_running_loop().time()


def test_a_call_collects_what_the_function_did() -> None:
    done = invoke(bill, "order 1", key="customer-7")
    assert done.returned == "done"
    (invoice,) = done.emitted
    assert (invoice.topic, invoice.key, invoice.value) == ("invoices", b"customer-7", b'{"order":"order 1"}')
    assert invoice.headers == (("from", b"orders"),)
    (line,) = done.logs
    assert (line.level, line.message, line.fields) == ("info", "Billed customer-7", {"amount": 3})


def test_log_lines_read_as_those_of_a_worker() -> None:
    def log(context: Any, event: Any) -> None:
        context.logger.info("paid %(amount)d", {"amount": 3})
        context.logger.info("paid %d", "three")

    assert [line.message for line in invoke(log).logs] == ["paid 3", "paid %d 'three'"]


def test_an_event_has_all_its_parts() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def look(context: Any, event: Any) -> Any:
        assert context.trigger_name == "look"
        return event.topic, event.shard_id, event.offset, event.timestamp, event.headers, event.attempt, event.body

    parts = event({"a": 1}, headers={"h": "x"}, topic="t", shard=3, offset=17, timestamp=moment, attempt=2)
    assert invoke(look, parts).returned == ("t", 3, 17, moment, {"h": b"x"}, 2, b'{"a":1}')
    assert invoke(look).returned[0] == "events"
    assert invoke(look).returned[-1] is None


def test_a_plain_function_that_returns_a_coroutine_fails_as_in_a_worker() -> None:
    async def handle() -> str:
        return "done"

    with pytest.raises(TypeError, match="must be awaited: define it with async def"):
        invoke(lambda context, event: handle())


def test_what_the_function_raises_reaches_the_test() -> None:
    with pytest.raises(AttributeError):
        invoke(bill, "order without a key")


def test_an_async_function_runs_under_asyncio() -> None:
    done = invoke(slow, b"x")
    assert done.returned > 0
    assert done.emitted[0].value == b"x"


def test_a_test_under_asyncio_awaits_the_call() -> None:
    async def test() -> Any:
        with pytest.raises(RuntimeError, match="await invoke_async"):
            invoke(slow)
        return await invoke_async(slow, b"y")

    assert asyncio.run(test()).emitted[0].value == b"y"


def test_a_batch_is_a_list_of_events() -> None:
    done = invoke_batch(sum_up, ["1", event("2"), "bad"])
    assert done.returned == 3
    assert [each.offset for each in done.events] == [0, 1, 2]
    assert done.failed == {2: "no number"}
    assert invoke(sum_up, "5").returned == 5, "one event is a list too"


def test_explicit_acknowledgements_are_seen() -> None:
    def later(context: Any, event: Any) -> None:
        event.acknowledge()

    assert invoke(later, offset=5).acknowledged == {5}
    assert invoke(lambda context, event: None).acknowledged == frozenset()


def test_what_a_worker_refuses_is_refused() -> None:
    kept: list[Any] = []

    @trigger("orders")
    def later(context: Any, event: Any) -> None:
        kept.append(event)
        event.acknowledge()

    with pytest.raises(RuntimeError, match='set acknowledgement="explicit"'):
        invoke(later)
    assert invoke(trigger("orders", acknowledgement="explicit")(later), offset=3).acknowledged == {3}
    with pytest.raises(RuntimeError, match="is not being handled any more"):
        kept[0].fail()


def test_failed_items_may_be_returned_as_on_aws() -> None:
    @trigger("orders", batch_size=5)
    def check(context: Any, events: Any) -> Any:
        return {"batchItemFailures": [{"itemIdentifier": events[1].id}]}

    assert invoke_batch(check, ["a", "b"]).failed == {1: ""}


def test_a_function_of_nuclio_acknowledges_by_offsets() -> None:
    async def later(context: Any, event: Any) -> None:
        await context.platform.explicit_ack(SimpleNamespace(topic=event.path, partition=event.shard_id, offset=4))

    assert invoke(later, offset=5).acknowledged == {4}


def test_a_context_lives_as_long_as_its_function_is_tested() -> None:
    def count(context: Any, event: Any) -> int:
        context.user_data.count += 1
        context.logger.warn("counted")
        return int(context.user_data.count)

    def prepare(context: Any) -> None:
        context.user_data.count = 10

    tested = FunctionUnderTest(count, init_context=prepare)
    assert tested.invoke().returned == 11
    done = tested.invoke()
    assert (done.returned, len(done.logs), done.events[0].offset) == (12, 1, 1)


def test_an_event_loop_lives_as_long_as_its_function_is_tested() -> None:
    async def loop(context: Any, event: Any) -> bool:
        return asyncio.get_running_loop() is context.user_data.loop

    async def prepare(context: Any) -> None:
        context.user_data.loop = asyncio.get_running_loop()

    with FunctionUnderTest(loop, init_context=prepare) as tested:
        assert tested.invoke().returned
        assert tested.invoke().returned


def test_a_failed_call_still_shows_its_lines() -> None:
    shown: list[str] = []

    def fail(context: Any, event: Any) -> None:
        context.logger.error("before")
        raise KeyError

    with pytest.raises(KeyError):
        FunctionUnderTest(fail, on_log=lambda line: shown.append(line.message)).invoke()
    assert shown == ["before"]


def test_parts_are_given_once() -> None:
    with pytest.raises(TypeError, match="give the parts of the event to event"):
        invoke(bill, event(b"x"), key=b"y")
    with pytest.raises(TypeError, match="a body must be bytes, text, a dict, a list or None, not int"):
        invoke(bill, 5)  # type: ignore[arg-type]


def test_a_function_of_a_file_that_is_no_module_has_its_init_context(tmp_path: Path) -> None:
    path = tmp_path / "billing.py"
    path.write_text(
        "def init_context(context):\n    context.user_data.bills = []\n"
        "def bill(context, event):\n    context.user_data.bills.append(event.body)\n"
    )
    with FunctionUnderTest(runpy.run_path(str(path))["bill"]) as tested:
        tested.invoke(b"1")
        assert tested.context.user_data.bills == [b"1"]
