from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from worker_pools import Signals, chunk_of, function_in, running_pool

from tailrace.trigger.work import Output, Settled, Shard
from tailrace.trigger.worker.context import Response
from tailrace.trigger.worker.nuclio_platform import KEEPS_OPEN, Platform, call_back, keeps_open

FUNCTION = """
    import os
    from types import SimpleNamespace

    def init_context(context):
        context.platform.set_drain_callback(lambda: signal("d"))
        context.platform.set_termination_callback(ended)

    async def ended():
        signal("t")

    def signal(letter):
        with open(os.environ["SIGNALS"], "w") as file:
            file.write(letter)

    async def handler(context, event):
        context.emit("out", event.body)
        if event.body == b"open":
            response = context.Response()
            response.ensure_no_ack()
            return response
        if event.body == b"acknowledge":
            await context.platform.explicit_ack(SimpleNamespace(topic="orders", partition=0, offset=1))
"""


@pytest.mark.parametrize(
    ("result", "keeps"),
    [
        (None, False),
        ({"headers": {KEEPS_OPEN: True}}, False),
        (SimpleNamespace(headers=None), False),
        (SimpleNamespace(headers={"X-Nuclio-Stream-No-Ack": True}), True),
        (SimpleNamespace(headers={KEEPS_OPEN: "false"}), False),
    ],
)
def test_the_header_of_a_response_keeps_an_event_open(result: object, keeps: bool) -> None:
    assert keeps_open(result) is keeps


def test_a_response_can_keep_its_event_open() -> None:
    response = Response()
    assert not keeps_open(response)
    response.ensure_no_ack()
    assert keeps_open(response)


async def test_callbacks_are_called_in_their_order_and_once() -> None:
    called: list[str] = []
    platform = Platform(lambda shard, offset: None)

    async def end() -> None:
        await trio.lowlevel.checkpoint()
        called.append("end")

    platform.set_termination_callback(end)
    platform.set_drain_callback(lambda: called.append("drain"))
    for callback in platform.pending_callbacks():
        await call_back(callback)
    assert called == ["drain", "end"]
    assert platform.pending_callbacks() == []


async def test_a_function_of_nuclio_keeps_events_open_and_acknowledges_them_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = Signals(tmp_path)
    monkeypatch.setenv("SIGNALS", str(signals.path))
    shard = Shard("orders", 0)
    async with running_pool(function_in(tmp_path, FUNCTION), acknowledgement="either") as pool:
        outcome = await pool.handle(chunk_of("open", "open", "return", "open"))
        assert (outcome.next_offset, outcome.opened) == (4, (0, 1, 3)), "a return acknowledges unless it says otherwise"
        assert outcome.outputs == (Output("out", None, b"return"),)
        outcome = await pool.handle(chunk_of("acknowledge", shard=1))
        assert outcome.opened == ()
        kept = (Output("out", None, b"open"),)
        assert await pool.next_settled() == [Settled(shard, 0, True, kept), Settled(shard, 1, True, kept)]
        await pool.stop(10)
        assert [await signals.next(), await signals.next()] == ["d", "t"]
    signals.close()
