"""The local provisioner with scripted SPUs, on a clock that jumps."""

import structlog
import trio
from msgspec import Struct, field
from msgspec.structs import replace
from structlog.testing import capture_logs

from tailrace.controller.objects.objects import Spu, SpuGroup, SpuSpec, SpuType
from tailrace.controller.spus.local_provisioner import LocalProvisioner
from tailrace.controller.spus.supervised_process import ProcessEndedError
from tailrace.protocol.ids import SpuId


def _spu(number: int, **spec: object) -> Spu:
    return Spu(replace(SpuSpec(SpuId(number), SpuType.MANAGED, group="main"), **spec))  # type: ignore[arg-type]


class FakeSpu(Struct):
    launcher: "FakeLauncher"
    spu: SpuId
    ended: trio.Event = field(default_factory=trio.Event)
    how: str = ""

    def die(self, how: str) -> None:
        self.how = how
        self.ended.set()

    async def wait(self) -> str:
        await self.ended.wait()
        return self.how

    async def stop(self) -> None:
        if not self.ended.is_set():
            await trio.sleep(self.launcher.stop_seconds)
            self.launcher.events.append(f"stopped {self.spu}")
            self.die("status 0")

    def end(self) -> None:
        if not self.ended.is_set():
            self.launcher.events.append(f"ended {self.spu}")
            self.die("SIGKILL")


class FakeLauncher(Struct):
    events: list[str] = field(default_factory=list)
    running: dict[SpuId, FakeSpu] = field(default_factory=dict)
    launch_seconds: float = 0.5
    stop_seconds: float = 0.0
    failures: int = 0
    launched: trio.Event = field(default_factory=trio.Event)

    async def launch(self, spu: Spu) -> FakeSpu:
        spu_id = spu.spec.id
        try:
            await trio.sleep(self.launch_seconds)
        except trio.Cancelled:
            self.events.append(f"never mind {spu_id}")
            raise
        if self.failures:
            self.failures -= 1
            raise ProcessEndedError("status 1")
        self.events.append(f"launched {spu_id} {spu.spec.rack or ''}".strip())
        self.running[spu_id] = FakeSpu(self, spu_id)
        self.launched.set()
        return self.running[spu_id]

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        return None

    async def next_launch(self) -> None:
        await self.launched.wait()
        self.launched = trio.Event()


async def _provisioner(nursery: trio.Nursery, launcher: FakeLauncher) -> LocalProvisioner:
    provisioner = LocalProvisioner(launcher, structlog.get_logger())
    await nursery.start(provisioner.run)
    return provisioner


async def test_an_spu_is_started_once_and_stopped_when_it_is_to_go(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    launcher = FakeLauncher()
    provisioner = await _provisioner(nursery, launcher)
    await provisioner.provision(_spu(1))
    await provisioner.provision(_spu(1, size_bytes=5))  # The SC sends the size to the SPU.
    await launcher.next_launch()
    await provisioner.terminate(SpuId(1))
    await provisioner.terminate(SpuId(1))
    await trio.sleep(100)
    assert launcher.events == ["launched 1", "stopped 1"]


async def test_many_start_at_the_same_time(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    launcher = FakeLauncher()
    provisioner = await _provisioner(nursery, launcher)
    began = trio.current_time()
    for number in range(3):
        await provisioner.provision(_spu(number))
    while len(launcher.running) < 3:
        await launcher.next_launch()
    assert trio.current_time() - began == launcher.launch_seconds


async def test_an_spu_that_ends_is_restarted_and_the_log_says_how_it_ended(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    launcher = FakeLauncher()
    provisioner = await _provisioner(nursery, launcher)
    with capture_logs() as logs:
        await provisioner.provision(_spu(7))
        await launcher.next_launch()
        launcher.running[SpuId(7)].die("SIGKILL")
        await launcher.next_launch()
    assert logs == [{"event": "spu_process_ended", "log_level": "warning", "spu": 7, "status": "SIGKILL"}]
    assert launcher.events == ["launched 7", "launched 7"]


async def test_a_failed_start_is_retried(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    launcher = FakeLauncher(failures=3)
    provisioner = await _provisioner(nursery, launcher)
    with capture_logs() as logs:
        await provisioner.provision(_spu(1))
        await launcher.next_launch()
    assert [log["status"] for log in logs] == ["status 1"] * 3


async def test_an_spu_that_is_still_starting_can_be_stopped(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    launcher = FakeLauncher()
    provisioner = await _provisioner(nursery, launcher)
    await provisioner.provision(_spu(1))
    await trio.testing.wait_all_tasks_blocked()
    await provisioner.terminate(SpuId(1))
    assert launcher.events == ["never mind 1"]


async def test_a_pause_before_a_start_ends_with_a_stop(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    launcher = FakeLauncher(failures=1000)
    provisioner = await _provisioner(nursery, launcher)
    await provisioner.provision(_spu(1))
    await trio.sleep(100)
    before = trio.current_time()
    await provisioner.terminate(SpuId(1))
    assert trio.current_time() == before


async def test_another_spec_is_rolled_out(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    launcher = FakeLauncher()
    provisioner = await _provisioner(nursery, launcher)
    await provisioner.provision(_spu(1, rack="a"))
    await launcher.next_launch()
    await provisioner.provision(_spu(1, rack="b"))
    assert launcher.events == ["launched 1 a", "stopped 1", "launched 1 b"]


async def test_all_stop_at_the_same_time(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    launcher = FakeLauncher(stop_seconds=3)
    provisioner = await _provisioner(nursery, launcher)
    for number in range(3):
        await provisioner.provision(_spu(number))
    while len(launcher.running) < 3:
        await launcher.next_launch()
    began = trio.current_time()
    await provisioner.stop()
    assert trio.current_time() - began == 3
    assert all(each.ended.is_set() for each in launcher.running.values())


async def test_a_cancelled_provisioner_ends_all_spus_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    launcher = FakeLauncher(stop_seconds=1000)
    async with trio.open_nursery() as nursery:
        provisioner = await _provisioner(nursery, launcher)
        await provisioner.provision(_spu(1))
        await launcher.next_launch()
        before = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() == before
    assert launcher.events == ["launched 1", "ended 1"]


async def test_a_clean_stop_that_takes_too_long_can_be_cut_short(autojump_clock: trio.testing.MockClock) -> None:
    launcher = FakeLauncher(stop_seconds=1000)
    async with trio.open_nursery() as nursery:
        provisioner = await _provisioner(nursery, launcher)
        await provisioner.provision(_spu(1))
        await launcher.next_launch()
        nursery.start_soon(provisioner.stop)
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() == before
    assert launcher.events == ["launched 1", "ended 1"]
