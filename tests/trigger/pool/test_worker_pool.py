"""Pools with real worker processes. Most of the time of a test is the start of a process, so tests share pools."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from worker_pools import Signals, batch_of, chunk_of, function_in, pool_of, running_pool

from tailrace.protocol.batches.record_batch import HEADER_SIZE
from tailrace.trigger.pool.worker_pool import WorkerPoolError
from tailrace.trigger.work import Chunk, FailureKind, Outcome, Output, Settled, Shard


@pytest.fixture
def signals(tmp_path: Path) -> Signals:
    return Signals(tmp_path)


def environment_of(signals: Signals) -> dict[str, str]:
    return {"SIGNALS": str(signals.path)}


def kind_of(outcome: Outcome) -> tuple[int, FailureKind | None, int | None, str | None]:
    failure = outcome.failure
    if failure is None:
        return outcome.next_offset, None, None, None
    return outcome.next_offset, failure.kind, failure.offset, failure.error


# A handler does what the body of its event says.
OBEDIENT = """
    import ctypes, os, re, signal, subprocess, sys, time

    state = []

    def say(letter):
        with open(os.environ["SIGNALS"], "w") as file:
            file.write(letter)

    def handler(context, event):
        match event.body.split():
            case [b"raise"]:
                context.emit("out", "of a failed event")
                raise ValueError("no such customer")
            case [b"sys.exit"]:
                sys.exit(3)
            case [b"os._exit"]:
                os._exit(3)
            case [b"segfault"]:
                ctypes.string_at(0)
            case [b"sleep"]:
                say("s")
                time.sleep(1000)
            case [b"backtrack"]:
                say("b")
                re.match(r"(a+)+b", "a" * 64)
            case [b"print"]:
                print("printed", flush=True)
                os.write(1, b"written\\n")
            case [b"log"]:
                context.logger.info("paid", amount=3)
            case [b"emit", value]:
                context.emit("out", value, key=event.key)
            case [b"grow", mebibytes]:
                state.append(b"x" * (int(mebibytes) << 20))
                if int(mebibytes) > 200:
                    time.sleep(1000)
            case [b"attempt"]:
                context.emit("out", str(event.attempt))
            case [b"child"]:
                child = subprocess.Popen(["sleep", "1000"])
                context.emit("out", str(child.pid))
            case [b"say", letter]:
                say(letter.decode())
"""


async def test_events_are_handled_in_order_and_failures_are_described(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], signals: Signals
) -> None:
    async with running_pool(function_in(tmp_path, OBEDIENT), environment=environment_of(signals)) as pool:
        pids = dict(pool.pids)
        outcome = await pool.handle(chunk_of("emit 1", "print", "log", "emit 2", first=7, shard=3))
        assert (outcome.next_offset, outcome.events, outcome.failure) == (11, 4, None)
        assert outcome.outputs == (Output("out", None, b"1"), Output("out", None, b"2"))
        assert outcome.handler_seconds > 0
        # What a handler prints goes where the replica's own output goes; its log lines say where it was.
        output, errors = capfd.readouterr()
        assert output.splitlines() == ["printed", "written"]
        line = json.loads(errors.splitlines()[-1])
        assert (line["topic"], line["shard"], line["offset"], line["event"]) == ("orders", 3, 9, "paid")

        outcome = await pool.handle(chunk_of("emit 1", "raise", "emit 2", first=5))
        assert kind_of(outcome) == (6, FailureKind.RAISED, 6, "ValueError")
        assert outcome.outputs == (Output("out", None, b"1"),)
        assert outcome.failure is not None
        assert (outcome.failure.message, outcome.failure.end) == ("no such customer", 7)
        assert outcome.failure.position.startswith("billing.py:")
        assert outcome.failure.position.endswith(" in handler")
        assert outcome.failure.traceback.splitlines()[1].startswith(f'  File "{tmp_path}')

        assert kind_of(await pool.handle(chunk_of("sys.exit"))) == (0, FailureKind.RAISED, 0, "SystemExit")
        assert (await pool.handle(chunk_of("attempt", attempt=4))).outputs == (Output("out", None, b"4"),)
        assert pool.pids == pids

        first, second = batch_of("emit 1", "emit 2"), bytearray(batch_of("emit 3", "emit 4", first=2))
        second[HEADER_SIZE + 5] ^= 1
        outcome = await pool.handle(Chunk(Shard("orders", 0), [first, bytes(second)], 1, 4))
        assert kind_of(outcome) == (2, FailureKind.UNREADABLE, 2, "CorruptRecord")
        assert outcome.failure is not None
        assert outcome.failure.end == 4
        assert outcome.outputs == (Output("out", None, b"2"),)

        batch = batch_of("emit 0", "emit 1", "emit 2", "emit 3")
        outcome = await pool.handle(Chunk(Shard("orders", 0), [batch], 1, 4, offsets=(1, 3)))
        assert [output.value for output in outcome.outputs] == [b"1", b"3"]
        assert (outcome.next_offset, outcome.events) == (4, 2)


async def test_a_process_that_ends_costs_one_attempt_of_one_event(tmp_path: Path, signals: Signals) -> None:
    source = function_in(tmp_path, OBEDIENT)
    async with running_pool(source, event_timeout=0.3, environment=environment_of(signals)) as pool:
        endings = (
            ("os._exit", FailureKind.WORKER_ENDED, "status 3"),
            ("segfault", FailureKind.WORKER_ENDED, "SIGSEGV"),
            ("sleep", FailureKind.TIMED_OUT, "TimedOut"),
            ("backtrack", FailureKind.TIMED_OUT, "TimedOut"),
        )
        for body, kind, error in endings:
            assert kind_of(await pool.handle(chunk_of("say a", body, "say b"))) == (1, kind, 1, error)
        assert signals.so_far() == "aa" + "as" + "ab"
        # What earlier events have emitted is not lost with the worker.
        outcome = await pool.handle(chunk_of("say a", "emit 1", "emit 2", "os._exit", "emit 3"))
        assert kind_of(outcome) == (3, FailureKind.WORKER_ENDED, 3, "status 3")
        assert [output.value for output in outcome.outputs] == [b"1", b"2"]


async def test_a_worker_that_was_killed_or_stopped_between_events_costs_nothing(
    tmp_path: Path, signals: Signals
) -> None:
    source = function_in(tmp_path, OBEDIENT)
    async with running_pool(source, event_timeout=0.3, environment=environment_of(signals)) as pool:
        pid = pool.pids[0]
        os.kill(pid, signal.SIGTERM)  # only the replica decides when a worker stops
        assert (await pool.handle(chunk_of("emit 1"))).events == 1
        assert pool.pids[0] == pid
        for number in (signal.SIGKILL, signal.SIGSTOP):
            assert (await pool.handle(chunk_of("emit 1"))).failure is None
            before = pool.pids[0]
            os.kill(before, number)
            outcome = await pool.handle(chunk_of("emit 1"))
            assert (outcome.next_offset, outcome.failure, len(outcome.outputs)) == (1, None, 1)
            assert pool.pids[0] != before


async def test_processes_that_a_killed_worker_has_started_end_with_it(tmp_path: Path, signals: Signals) -> None:
    async with running_pool(function_in(tmp_path, OBEDIENT), environment=environment_of(signals)) as pool:
        outcome = await pool.handle(chunk_of("child"))
        child = os.pidfd_open(int(outcome.outputs[0].value or b""))
        await pool.handle(chunk_of("os._exit"))
        await trio.lowlevel.wait_readable(child)
        os.close(child)


async def test_a_worker_that_grows_is_replaced_after_a_chunk_or_killed_within_an_event(tmp_path: Path) -> None:
    async with running_pool(function_in(tmp_path, OBEDIENT), worker_memory_max=150 << 20) as pool:
        before = pool.pids[0]
        assert (await pool.handle(chunk_of("grow 10"))).failure is None
        assert pool.pids[0] == before
        assert (await pool.handle(chunk_of("grow 150", "emit 1"))).failure is None
        assert kind_of(await pool.handle(chunk_of("emit 1"))) == (1, None, None, None)
        replaced = pool.pids[0]
        assert replaced != before
        outcome = await pool.handle(chunk_of("emit 1", "grow 300"))
        assert kind_of(outcome) == (1, FailureKind.WORKER_ENDED, 1, "MemoryLimit")


async def test_without_a_lease_no_event_begins_and_a_running_one_is_ended(tmp_path: Path, signals: Signals) -> None:
    outcomes: list[Outcome] = []
    source = function_in(tmp_path, OBEDIENT)

    async def handle() -> None:
        # Its own watchdog cannot end a worker that holds Python's lock.
        outcomes.append(await pool.handle(chunk_of("say a", "backtrack", "say b")))

    async with running_pool(source, lease=-1, environment=environment_of(signals)) as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle)
            await trio.testing.wait_all_tasks_blocked()
            assert (signals.so_far(), pool.busy) == ("", 0)
            pool.set_lease(float("inf"))
            assert await signals.next() + await signals.next() == "ab"
            assert pool.busy == 1
            pool.set_lease(trio.current_time())
        assert [kind_of(outcome) for outcome in outcomes] == [(1, None, None, None)]
        assert signals.so_far() == ""


async def test_the_pool_ends_after_running_events_or_at_the_deadline(tmp_path: Path, signals: Signals) -> None:
    outcomes: dict[int, Outcome] = {}
    source = function_in(
        tmp_path,
        """
        import os

        def handler(context, event):
            with open(os.environ["SIGNALS"], "w") as file:
                file.write("b")
            with open(os.environ["GO"]) as file:
                file.read()
        """,
    )
    go = tmp_path / "go"
    os.mkfifo(go)

    async def handle(shard: int) -> None:
        outcomes[shard] = await pool.handle(chunk_of("", "", "", shard=shard))

    for seconds in (40, 0):
        async with running_pool(source, environment={**environment_of(signals), "GO": str(go)}) as pool:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(handle, 1)
                assert await signals.next() == "b"
                nursery.start_soon(handle, 2)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(pool.stop, seconds)
                await trio.testing.wait_all_tasks_blocked()
                if seconds:
                    os.close(os.open(go, os.O_WRONLY))
            assert kind_of(outcomes[1]) == (1 if seconds else 0, None, None, None)
            assert kind_of(outcomes[2]) == (0, None, None, None)
            assert pool.pids == {}
            assert kind_of(await pool.handle(chunk_of("", first=5))) == (5, None, None, None)


async def test_the_free_worker_takes_the_next_chunk_of_any_shard_and_there_are_never_more(
    tmp_path: Path, signals: Signals
) -> None:
    """One worker has a chunk in advance, because its events were quick. Then one event is slow."""
    source = function_in(
        tmp_path,
        """
        import os

        def handler(context, event):
            match event.body:
                case b"slow":
                    say("s")
                    with open(os.environ["GO"]) as file:
                        file.read()
                case b"count":
                    say("(")
                    say(")")

        def say(letter):
            with open(os.environ["SIGNALS"], "w") as file:
                file.write(letter)
        """,
    )
    go = tmp_path / "go"
    os.mkfifo(go)

    async def handle(chunk: Chunk) -> None:
        assert (await pool.handle(chunk)).failure is None

    async with running_pool(source, size=2, environment={**environment_of(signals), "GO": str(go)}) as pool:
        async with trio.open_nursery() as nursery:
            for shard in range(6):
                nursery.start_soon(handle, chunk_of(*["count"] * 20, shard=shard))
        depth = deepest = 0
        for letter in signals.so_far():
            depth += 1 if letter == "(" else -1
            deepest = max(deepest, depth)
        assert (depth, pool.busy) == (0, 0)
        assert 1 <= deepest <= 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle, chunk_of("slow", shard=0))
            assert await signals.next() == "s"
            async with trio.open_nursery() as others:
                for shard in range(1, 6):
                    others.start_soon(handle, chunk_of("count", "", shard=shard))
            assert pool.busy == 1
            os.close(os.open(go, os.O_WRONLY))
        # The slow worker finds that its next chunk was taken from it, and then goes on.
        assert signals.so_far() == "()" * 5
        async with trio.open_nursery() as nursery:
            for shard in range(6):
                nursery.start_soon(handle, chunk_of("count", shard=shard))
        assert sorted(signals.so_far()) == sorted("()" * 6)


async def test_a_chunk_that_is_given_up_is_not_handled_further(tmp_path: Path, signals: Signals) -> None:
    source = function_in(tmp_path, OBEDIENT)
    async with running_pool(source, environment=environment_of(signals), event_timeout=1) as pool:

        async def handle(*bodies: str) -> None:
            await pool.handle(chunk_of(*bodies))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle, "say a", "sleep", "say b")
            assert await signals.next() + await signals.next() == "as"
            nursery.start_soon(handle, "say c")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert (await pool.handle(chunk_of("emit 1"))).events == 1
        assert signals.so_far() == ""


async def test_a_function_that_cannot_be_loaded_is_one_clear_error(tmp_path: Path) -> None:
    async def error_of(text: str) -> str:
        with pytest.raises(WorkerPoolError) as caught:
            await pool_of(function_in(tmp_path, text)).run()
        return str(caught.value).replace(str(tmp_path), "")

    assert await error_of("import nowhere_to_be_found") == (
        f"/billing.py: line 1: No module named 'nowhere_to_be_found': install it for {sys.executable}, "
        "or check the name"
    )
    assert await error_of(
        """
        def init_context(context):
            raise ConnectionError("the database is away")

        def handler(context, event): ...
        """
    ) == ("/billing.py: init_context failed: ConnectionError: the database is away (billing.py:3 in init_context)")
    assert await error_of(
        """
        async def connect(context): ...

        def init_context(context):
            return connect(context)

        def handler(context, event): ...
        """
    ) == (
        "/billing.py: init_context failed: TypeError: init_context returned something that must be awaited: define it "
        "with async def"
    )
    assert await error_of("import os\nos._exit(7)") == (
        "/billing.py: 5 workers in a row have ended: the last one ended with status 7 before it had handled an event"
    )


async def test_a_limit_of_memory_that_the_function_itself_exceeds_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerPoolError, match=r"a worker uses \d+ MiB after it has loaded the function"):
        await pool_of(function_in(tmp_path, OBEDIENT), worker_memory_max=1 << 20).run()


async def test_batches_of_events_and_their_failed_items(tmp_path: Path) -> None:
    source = function_in(
        tmp_path,
        """
        def handler(context, events):
            context.emit("out", ",".join(event.body.decode() for event in events))
            for event in events:
                if event.body == b"bad":
                    event.fail("no such customer")
                if event.body == b"raise":
                    raise ValueError("all of them")
            if events[-1].body == b"aws":
                return {"batchItemFailures": [{"itemIdentifier": events[-1].id}]}
            return [event.body for event in events]
        """,
    )
    async with running_pool(source) as pool:
        outcome = await pool.handle(chunk_of(*"abcde", batch_size=2))
        assert [output.value for output in outcome.outputs] == [b"a,b", b"c,d", b"e"]
        assert (outcome.next_offset, outcome.events) == (5, 5)

        outcome = await pool.handle(chunk_of("a", "b", "c", "bad", "e", "f", batch_size=3))
        failure = outcome.failure
        assert failure is not None
        assert (outcome.next_offset, outcome.events) == (3, 5)
        assert (failure.kind, failure.offset, failure.end) == (FailureKind.RAISED, 3, 6)
        assert (failure.failed_offsets, failure.message) == ((3,), "no such customer")
        assert [output.value for output in outcome.outputs] == [b"a,b,c", b"bad,e,f"]

        outcome = await pool.handle(chunk_of("a", "aws", batch_size=2))
        assert outcome.failure is not None
        assert outcome.failure.failed_offsets == (1,)

        for bodies in (("a", "raise"), ("bad", "bad")):
            outcome = await pool.handle(chunk_of(*bodies, batch_size=2))
            assert outcome.failure is not None
            assert (outcome.failure.failed_offsets, outcome.events, outcome.outputs) == ((), 0, ())


LATE = """
    import asyncio

    later = []

    async def handler(context, event):
        match event.body:
            case b"open":
                later.append(event)
            case b"task":
                context.logger.info("before")
                task = asyncio.create_task(end(context, event))
                later.append(task)
            case b"now":
                event.acknowledge()
            case b"all":
                for each in later:
                    each.acknowledge()
                event.acknowledge()
            case b"raise":
                raise ValueError("no")

    async def end(context, event):
        await asyncio.sleep(0)
        context.emit("out", event.body)
        context.logger.info("after")
        event.acknowledge()
"""


async def test_tasks_acknowledge_events_after_the_handler_has_returned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shard = Shard("orders", 3)
    async with running_pool(function_in(tmp_path, LATE), acknowledgement="explicit") as pool:
        outcome = await pool.handle(chunk_of("now", "task", first=4, shard=3))
        assert (outcome.next_offset, outcome.opened, outcome.outputs) == (6, (5,), ())
        assert await pool.next_settled() == [Settled(shard, 5, True, (Output("out", None, b"task"),))]
        lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
        said = [
            (line["event"], line["shard"], line["offset"]) for line in lines if line["event"] in ("before", "after")
        ]
        assert said == [("before", 3, 5), ("after", 3, 5)]


async def test_open_events_are_settled_when_they_are_acknowledged_or_their_worker_ends(tmp_path: Path) -> None:
    source = function_in(
        tmp_path,
        """
        import os, pathlib, threading

        later = []

        def handler(context, event):
            match event.body:
                case b"open":
                    context.emit("out", "kept")
                    later.append(event)
                case b"now":
                    event.acknowledge()
                case b"all":
                    event.acknowledge()
                    while later:
                        later.pop().acknowledge()
                case b"thread":
                    threading.Thread(target=end, args=(context, event)).start()
                case b"raise":
                    raise ValueError("no")
                case b"exit":
                    os._exit(1)

        def end(context, event):
            pathlib.Path(os.environ["LATER"]).read_bytes()  # waits until the test opens the pipe as well
            context.emit("out", "late", event=event)
            event.acknowledge()
        """,
    )
    later = tmp_path / "later"
    os.mkfifo(later)
    shard, other = Shard("orders", 0), Shard("orders", 1)
    async with running_pool(source, acknowledgement="explicit", environment={"LATER": str(later)}) as pool:
        outcome = await pool.handle(chunk_of("open", "now", "open", "all"))
        assert (outcome.next_offset, outcome.opened) == (4, ())
        assert [output.value for output in outcome.outputs] == [b"kept", b"kept"]

        outcome = await pool.handle(chunk_of("thread"))
        assert outcome.opened == (0,)
        later.write_bytes(b"")
        assert await pool.next_settled() == [Settled(shard, 0, True, (Output("out", None, b"late"),))]

        outcome = await pool.handle(chunk_of("open", "now", "raise"))
        assert (outcome.next_offset, outcome.opened) == (2, (0,))
        assert outcome.failure is not None
        await pool.handle(chunk_of("all", shard=1))
        assert await pool.next_settled() == [Settled(shard, 0, True, (Output("out", None, b"kept"),))]

        # Nothing after the first open event of a chunk is safe when the worker dies.
        assert (await pool.handle(chunk_of("open", "open"))).opened == (0, 1)
        outcome = await pool.handle(chunk_of("now", "open", "now", "exit", shard=1))
        assert kind_of(outcome) == (1, FailureKind.WORKER_ENDED, 3, "status 1")
        assert await pool.next_settled() == [Settled(shard, 0, False), Settled(shard, 1, False)]

        await pool.handle(chunk_of("open"))
        await pool.handle(chunk_of("open", shard=1))
        await pool.abandon(shard)
        assert await pool.next_settled() == [Settled(shard, 0, False), Settled(other, 0, False)]


async def test_a_running_event_of_a_shard_that_was_given_up_is_ended(tmp_path: Path, signals: Signals) -> None:
    async with running_pool(function_in(tmp_path, OBEDIENT), environment=environment_of(signals)) as pool:
        (pid,) = pool.pids.values()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.handle, chunk_of("sleep"))
            assert await signals.next() == "s"
            nursery.cancel_scope.cancel()
        await pool.abandon(Shard("orders", 0))
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert (await pool.handle(chunk_of("emit 1", shard=1))).next_offset == 1


def test_workers_end_with_a_replica_that_was_killed(tmp_path: Path, signals: Signals) -> None:
    """One worker is idle, and the other holds Python's lock in the middle of an event."""
    source = function_in(tmp_path, OBEDIENT)
    program = f"""
        import trio
        from worker_pools import *
        async def main():
            source = source_of({source.path!r})
            async with running_pool(source, size=2, environment={environment_of(signals)!r}) as pool:
                while len(pool.pids) < 2:
                    await trio.sleep(0.01)
                print(*pool.pids.values(), flush=True)
                await pool.handle(chunk_of("say a", "backtrack"))
        trio.run(main)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    text = "\n".join(line[8:] for line in program.splitlines())
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, env=environment) as replica:
        assert replica.stdout is not None
        workers = [os.pidfd_open(int(pid)) for pid in replica.stdout.readline().split()]
        assert [trio.run(signals.next) for _ in range(2)] == ["a", "b"]
        replica.kill()

    async def wait() -> None:
        for worker in workers:
            await trio.lowlevel.wait_readable(worker)
            os.close(worker)

    trio.run(wait)


async def test_a_pool_can_be_stopped_before_its_first_worker_is_ready(tmp_path: Path) -> None:
    pool = pool_of(function_in(tmp_path, "import time\ntime.sleep(1000)"), size=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nursery.start, pool.run)
        await trio.testing.wait_all_tasks_blocked()
        assert len(pool.pids) == 2
        await pool.stop(0)


def test_a_pool_that_was_not_started_has_nothing_to_stop(tmp_path: Path) -> None:
    pool = pool_of(function_in(tmp_path, OBEDIENT))
    trio.run(pool.stop, 1.0)
    assert (pool.pids, pool.busy, pool.size) == ({}, 0, 1)
