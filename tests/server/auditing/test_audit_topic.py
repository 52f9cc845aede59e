"""The copy of an audit log in a topic: it catches up, and says what it could not copy."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog
import trio
import trio.testing
from audit_logs import DIRECTORY, NOW_MS, disk, event, opened
from msgspec import Struct, field
from structlog.testing import capture_logs

from tailrace.runtime.chance import RandomChance
from tailrace.security.audit.topic_verification import TopicVerification
from tailrace.server.auditing.audit_files import AuditFiles
from tailrace.server.auditing.audit_lines import AuditLines
from tailrace.server.auditing.audit_topic import PAUSE_SECONDS_MAX, AuditTopic
from tailrace.server.server_metrics import AuditCounts


class _World(Struct):
    log: AuditFiles
    topic: AuditTopic
    counts: AuditCounts
    records: list[tuple[bytes, bytes]] = field(default_factory=list)
    fault: OSError | None = None
    is_answer_lost: bool = False

    async def append(self, topic: str, key: bytes, values: Sequence[bytes]) -> None:
        assert topic == "audit"
        await trio.lowlevel.checkpoint()
        if self.fault is not None:
            raise self.fault
        self.records += [(key, value) for value in values]
        if self.is_answer_lost:
            self.is_answer_lost = False
            raise TimeoutError("no answer")

    async def write(self, name: str) -> None:
        await self.log.write([event(name)], NOW_MS)
        self.topic.on_written()
        await trio.testing.wait_all_tasks_blocked()

    def verified(self) -> tuple[list[str], list[str]]:
        """Returns the resources in the topic, and the faults."""
        verification, seen = TopicVerification(), list[str]()
        for number, (key, value) in enumerate(self.records):
            found = verification.read(f"record {number}", key, value)
            if found is not None and "resource" in found[1].fields:
                assert found[0] == "spu-1"
                seen.append(str(found[1].fields["resource"]))
        faults = [fault for each in verification.end().values() for fault in each.faults]
        return seen, verification.others.faults + faults


@asynccontextmanager
async def _world(**settings: int) -> AsyncIterator[_World]:
    files, counts = disk(), AuditCounts()
    log = await opened(files, **settings)
    lines = AuditLines(DIRECTORY, files, lambda: log.end)
    await lines.open("c1")
    topic = AuditTopic("audit", "spu-1", log.public_key(), lines, RandomChance(1), counts, structlog.get_logger())
    world = _World(log, topic, counts)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(topic.run, world.append)
        yield world
        nursery.cancel_scope.cancel()


async def test_the_topic_gets_each_line_with_the_name_of_the_server(autojump_clock: object) -> None:
    async with _world() as world:
        await world.write("a")
        await world.write("b")
        assert world.verified() == (["a", "b"], [])
        assert world.counts.audit_topic_lines == 6


async def test_lines_wait_while_the_topic_is_unavailable(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with _world() as world:
            world.fault = OSError("no leader")
            for name in "abc":
                await world.write(name)
            await trio.sleep(10 * PAUSE_SECONDS_MAX)
            assert world.records == []
            world.fault = None
            await trio.sleep(2 * PAUSE_SECONDS_MAX)
            assert world.verified() == (["a", "b", "c"], [])
    assert [each["event"] for each in logs] == ["audit_topic_unavailable", "audit_topic_available"]
    assert logs[0]["reason"] == "no leader"


async def test_lines_that_arrive_twice_are_no_fault(autojump_clock: object) -> None:
    async with _world() as world:
        world.is_answer_lost = True
        await world.write("a")
        await trio.sleep(PAUSE_SECONDS_MAX)
        assert len(world.records) > 4
        assert world.verified() == (["a"], [])


async def test_lines_that_are_gone_before_they_are_copied_are_said(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with _world(file_bytes=1, retained_bytes=1500) as world:
            await world.write("a")
            world.fault = OSError("no leader")
            for number in range(9):
                await world.write(f"lost {number}")
            world.fault = None
            await trio.sleep(2 * PAUSE_SECONDS_MAX)
            seen, faults = world.verified()
            assert seen[0] == "a" and seen[-1] == "lost 8" and len(seen) < 10
            assert len(faults) == 1 and "are missing before record" in faults[0]
            missed = world.counts.missed_audit_topic_lines
    assert missed > 0
    assert {"event": "audit_topic_missed", "lines": missed, "topic": "audit", "log_level": "error"} in logs
