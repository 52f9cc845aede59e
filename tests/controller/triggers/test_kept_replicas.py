"""Replicas with scripted processes, on a clock that jumps."""

import pytest
import structlog
import trio
import trio.testing
from msgspec import Struct, field
from structlog.testing import capture_logs
from trio.testing import MockClock

from tailrace.controller.spus.supervised_process import PAUSE_SECONDS_MIN
from tailrace.controller.state.actions import KeepReplica
from tailrace.controller.triggers.bounded_log import LogPart
from tailrace.controller.triggers.kept_replicas import RECENT_SECONDS, KeptReplicas


def wanted(replica: int = 1, revision: int = 1) -> KeepReplica:
    return KeepReplica("bill", f"replica{replica}", revision, None)


class FakeReplica(Struct):
    launcher: "FakeLauncher"
    name: str
    ended: trio.Event = field(default_factory=trio.Event)

    async def wait(self) -> str:
        await self.ended.wait()
        return "status 1"

    async def stop(self) -> None:
        await trio.sleep(self.launcher.stop_seconds)
        self.launcher.events.append(f"stopped {self.name}")
        self.ended.set()

    def end(self) -> None:
        if not self.ended.is_set():
            self.launcher.events.append(f"ended {self.name}")
            self.ended.set()


class FakeLauncher(Struct):
    events: list[str] = field(default_factory=list)
    running: dict[str, FakeReplica] = field(default_factory=dict)
    stop_seconds: float = 3.0

    async def launch(self, wanted: KeepReplica) -> FakeReplica:
        await trio.lowlevel.checkpoint()
        self.events.append(f"launched {wanted.replica} {wanted.revision}")
        self.running[wanted.replica] = FakeReplica(self, f"{wanted.replica} {wanted.revision}")
        return self.running[wanted.replica]

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> LogPart | None:
        return LogPart("hello\n", 6)

    async def forget(self, trigger: str) -> None:
        await trio.lowlevel.checkpoint()
        self.events.append(f"forgot {trigger}")

    def last_line(self, trigger: str, replica: str) -> str:
        return "ValueError: no"


@pytest.fixture
def launcher() -> FakeLauncher:
    return FakeLauncher()


@pytest.fixture
async def replicas(nursery: trio.Nursery, launcher: FakeLauncher) -> KeptReplicas:
    kept = KeptReplicas(launcher, structlog.get_logger())
    nursery.start_soon(kept.run)
    return kept


async def test_a_replica_runs_once_however_often_it_is_wanted(
    launcher: FakeLauncher, replicas: KeptReplicas, autojump_clock: MockClock
) -> None:
    for _ in range(3):
        replicas.keep(wanted())
        await trio.sleep(1)
    assert launcher.events == ["launched replica1 1"]
    assert replicas.states("bill") == {"replica1": "running"}
    assert replicas.states("ship") == {}


async def test_a_replica_that_ends_is_started_again_and_its_state_says_why(
    launcher: FakeLauncher, replicas: KeptReplicas, autojump_clock: MockClock
) -> None:
    replicas.keep(wanted())
    await trio.sleep(1)
    with capture_logs() as logs:
        launcher.running["replica1"].ended.set()
        await trio.testing.wait_all_tasks_blocked()
    assert replicas.states("bill") == {"replica1": "waiting after it ended with status 1: ValueError: no"}
    assert [log["last_line"] for log in logs if log["event"] == "replica_ended"] == ["ValueError: no"]
    await trio.sleep(PAUSE_SECONDS_MIN)
    await trio.testing.wait_all_tasks_blocked()
    assert launcher.events == ["launched replica1 1"] * 2
    assert replicas.states("bill") == {"replica1": "running after it ended with status 1: ValueError: no"}
    await trio.sleep(RECENT_SECONDS)
    assert replicas.states("bill") == {"replica1": "running"}


async def test_another_revision_starts_when_the_process_before_has_ended(
    launcher: FakeLauncher, replicas: KeptReplicas, autojump_clock: MockClock
) -> None:
    replicas.keep(wanted())
    await trio.sleep(1)
    replicas.keep(wanted(revision=2))
    await trio.sleep(1)
    assert launcher.events == ["launched replica1 1"]
    assert replicas.states("bill") == {"replica1": "stopping"}
    await trio.sleep(3)
    assert launcher.events == ["launched replica1 1", "stopped replica1 1", "launched replica1 2"]


async def test_a_running_replica_is_not_replaced_before_its_revision_changes(
    launcher: FakeLauncher, replicas: KeptReplicas, autojump_clock: MockClock
) -> None:
    replicas.keep(wanted())
    await trio.sleep(1)
    replicas.keep(KeepReplica("bill", "replica1", 1, "/another/python"))
    await trio.sleep(10)
    assert launcher.events == ["launched replica1 1"]


async def test_a_replica_that_is_wanted_again_while_it_stops_runs_again(
    launcher: FakeLauncher, replicas: KeptReplicas, autojump_clock: MockClock
) -> None:
    replicas.keep(wanted())
    await trio.sleep(1)
    replicas.drop("bill", "replica1")
    await trio.sleep(1)
    replicas.keep(wanted())
    await trio.sleep(10)
    assert launcher.events == ["launched replica1 1", "stopped replica1 1", "launched replica1 1"]
    replicas.drop("bill", "replica1")
    await trio.sleep(10)
    assert replicas.states("bill") == {}
    replicas.keep(wanted(revision=3))
    await trio.sleep(1)
    assert launcher.events[-1] == "launched replica1 3"


async def test_all_replicas_stop_at_the_same_time(
    launcher: FakeLauncher, replicas: KeptReplicas, autojump_clock: MockClock
) -> None:
    for number in (1, 2, 3):
        replicas.keep(wanted(number))
    await trio.sleep(1)
    began = trio.current_time()
    await replicas.stop()
    assert trio.current_time() - began == 3
    assert sorted(launcher.events[3:]) == [f"stopped replica{number} 1" for number in (1, 2, 3)]
    await replicas.stop()


async def test_cancelled_replicas_are_ended_at_once(launcher: FakeLauncher, autojump_clock: MockClock) -> None:
    replicas = KeptReplicas(launcher, structlog.get_logger())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replicas.run)
        replicas.keep(wanted())
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert launcher.events == ["launched replica1 1", "ended replica1 1"]


async def test_the_logs_of_a_deleted_trigger_are_removed_when_its_replicas_have_ended(
    launcher: FakeLauncher, replicas: KeptReplicas, autojump_clock: MockClock
) -> None:
    for number in (1, 2):
        replicas.keep(wanted(number))
    await trio.sleep(1)
    for number in (1, 2):
        replicas.drop("bill", f"replica{number}")
    replicas.forget("bill")
    replicas.forget("never-ran")
    await trio.sleep(10)
    assert launcher.events[2] == "forgot never-ran"
    assert sorted(launcher.events[3:5]) == ["stopped replica1 1", "stopped replica2 1"]
    assert launcher.events[5:] == ["forgot bill"]


async def test_a_trigger_that_is_deployed_again_keeps_its_logs(
    launcher: FakeLauncher, replicas: KeptReplicas, autojump_clock: MockClock
) -> None:
    replicas.keep(wanted())
    await trio.sleep(1)
    replicas.drop("bill", "replica1")
    replicas.forget("bill")
    replicas.keep(wanted())
    await trio.sleep(10)
    replicas.drop("bill", "replica1")
    await trio.sleep(10)
    assert "forgot bill" not in launcher.events
