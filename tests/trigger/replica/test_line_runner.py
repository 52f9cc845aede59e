"""Tests a line that is run until its input has ended, with workers that call a function in this process."""

from collections.abc import Sequence

import structlog
import trio
from spus import SteadyClock
from trigger_replicas import Handled, InProcessWorkers, config

from tailrace.client.transactions.transaction_errors import TransactionLostError
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.config.trigger_config import OnExhausted, Retry
from tailrace.trigger.replica.line_facts import LineFacts
from tailrace.trigger.replica.line_runner import LineParts, LineRunner
from tailrace.trigger.replica.output_sender import OutputRefusedError
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.shards.line_effects import Sending
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Output, Shard

SHARD = Shard("orders", 0)


class _Sender:
    """Keeps what is sent, or refuses it."""

    def __init__(self, refusal: str = "") -> None:
        self.outputs: list[Output] = []
        self.letters: list[int] = []
        self._refusal = refusal

    async def send(self, sending: Sending) -> None:
        await trio.lowlevel.checkpoint()
        if self._refusal:
            raise OutputRefusedError(self._refusal)
        self.outputs += sending.outputs
        self.letters += [each.offset for each in sending.dead_letters]


def _runner(workers: InProcessWorkers, sender: _Sender, **changes: object) -> LineRunner:
    metrics, logger = ReplicaMetrics(), structlog.get_logger()
    workers.set_lease(float("inf"))
    parts = LineParts(workers, sender, LineFacts(metrics, logger), metrics, SteadyClock(), RandomChance(1))
    return LineRunner(ShardLine(SHARD, 5, config(**changes)), parts, lambda now: True)


def _batch(offsets: Sequence[int]) -> bytes:
    return bytes(build_batch([Record(each, 0, None, b"%d" % each) for each in offsets], base_offset=offsets[0]))


async def _run(runner: LineRunner, *batches: Sequence[int]) -> None:
    async def read() -> None:
        for each in batches:
            await runner.room()
            runner.take(_batch(each), each[-1] + 1)
        runner.line.end_input()
        runner.changed.set()

    with trio.fail_after(60):
        await runner.run(read)


async def test_a_line_ends_when_its_input_has_ended_and_all_of_it_is_handled_and_sent(autojump_clock: object) -> None:
    handled, sender = Handled(0.01, outputs_to="out"), _Sender()
    runner = _runner(InProcessWorkers(handled), sender)
    await _run(runner, [5, 6, 9], [12, 13])
    assert handled.of(0) == [5, 6, 9, 12, 13]
    assert [each.value for each in sender.outputs] == [b"5", b"6", b"9", b"12", b"13"]
    assert runner.line.mark == 14


async def test_an_empty_input_ends_at_once(autojump_clock: object) -> None:
    runner = _runner(InProcessWorkers(Handled()), _Sender())
    await _run(runner)
    assert runner.line.mark == 5


async def test_retries_and_dead_letters_come_before_the_end(autojump_clock: object) -> None:
    handled, sender = Handled(), _Sender()
    handled.failing = {(0, 6): 1, (0, 7): 99}
    runner = _runner(InProcessWorkers(handled), sender, retry=Retry(attempts=2, backoff=(1, 1)))
    await _run(runner, [5, 6, 7, 8])
    assert handled.of(0) == [5, 6, 8]
    assert sender.letters == [7]


async def test_a_list_of_events_that_stays_short_is_handled_when_the_input_ends(autojump_clock: object) -> None:
    handled = Handled()
    workers = InProcessWorkers(handled)
    runner = _runner(workers, _Sender(), batch_size=2, batch_seconds=float("inf"))
    await _run(runner, [5], [6], [7])
    assert [(each.first, each.end) for each in workers.chunks] == [(5, 7), (7, 8)]


async def test_a_line_that_has_stopped_is_drained_by_its_owner(autojump_clock: object) -> None:
    handled = Handled()
    handled.failing = {(0, 6): 99}
    runner = _runner(InProcessWorkers(handled), _Sender(), retry=Retry(attempts=1), on_exhausted=OnExhausted.STOP)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run, runner, [5, 6, 7])
            while runner.line.stopped is None:
                await runner.changed.wait()
            runner.line.drain()
            runner.changed.set()
    assert runner.line.mark == 6


async def test_refused_output_stops_the_line_before_its_record(autojump_clock: object) -> None:
    handled = Handled(outputs_to="out")
    runner = _runner(InProcessWorkers(handled), _Sender("too large"))

    async def read() -> None:
        runner.take(_batch([5]), 6)
        while runner.line.stopped is None:
            await runner.changed.wait()
        runner.line.drain()
        runner.changed.set()

    with trio.fail_after(60):
        await runner.run(read)
    assert runner.line.stopped is not None
    assert (runner.line.stopped.reason, runner.line.mark) == ("too large", 5)


class _LosingSender(_Sender):
    """Loses everything at the second sending."""

    sendings = 0

    async def send(self, sending: Sending) -> None:
        self.sendings += 1
        if self.sendings == 2:
            raise TransactionLostError("fenced")
        await super().send(sending)


async def test_a_line_whose_output_is_lost_ends_and_sends_nothing_more(autojump_clock: object) -> None:
    handled, sender = Handled(1.0, outputs_to="out"), _LosingSender()
    runner = _runner(InProcessWorkers(handled), sender)

    async def read() -> None:
        runner.take(_batch(range(5, 100)), 100)
        await trio.sleep_forever()

    with trio.fail_after(60):
        await runner.run(read)
    assert str(runner.lost) == "fenced"
    assert (sender.sendings, [each.value for each in sender.outputs]) == (2, [b"5"])
    assert len(handled.events) < 10


class _SlowSender(_Sender):
    """Takes a while for the acknowledgement of what is stored already."""

    async def send(self, sending: Sending) -> None:
        await super().send(sending)
        await trio.sleep(0.05)


async def test_the_turn_is_free_only_when_the_line_knows_what_is_sent(autojump_clock: object) -> None:
    """A commit between a sending and the move of the mark would commit the output without its records."""
    runner = _runner(InProcessWorkers(Handled(0.1, outputs_to="out")), sender := _SlowSender())
    seen: list[tuple[int, int]] = []

    async def commit() -> None:
        while True:
            async with runner.turn:
                seen.append((runner.line.mark - 5, len(sender.outputs)))
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit)
        await _run(runner, list(range(5, 15)))
        nursery.cancel_scope.cancel()
    assert all(marked == sent for marked, sent in seen)
    assert len(set(seen)) > 3
