"""Tests launching with programs that print what an SPU prints; compat_tests launch real SPUs."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace
from simulation.network import MemoryNetwork

from tailrace.cli.serving import local_launcher
from tailrace.cli.serving.local_launcher import LocalLauncher
from tailrace.cli.serving.managed_spus import ManagedSpus
from tailrace.cli.serving.serving import CannotServeError, LogSettings
from tailrace.controller.objects.objects import PublicEndpoint, Spu, SpuSpec, SpuType
from tailrace.controller.spus.supervised_process import ProcessEndedError
from tailrace.protocol.ids import SpuId
from tailrace.runtime.child_process import ChildProcess, start_child
from tailrace.runtime.network import Address
from tailrace.runtime.seams import real_seams
from tailrace.runtime.settings import ListenerSettings, SpuSettings
from tailrace.storage.directory import layout

SC = Address("127.0.0.1", 1)
SERVING = """
import sys
public = sys.argv[1]
print(f"ready spu=1 bootstrap={public} in 1 ms", flush=True)
sys.stdin.read()
"""
Commands = list[SpuSettings]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Commands]:
    """Runs another program instead of an SPU; returns the settings of each start."""

    def run_instead(source: str) -> Commands:
        started: Commands = []

        def command(settings: SpuSettings, log: LogSettings) -> list[str]:
            started.append(settings)
            public = settings.listeners[0].address
            return [sys.executable, "-c", source, str(public if public.port else Address(public.host, 41000))]

        monkeypatch.setattr(local_launcher, "child_command", command)
        return started

    return run_instead


def _launcher(nursery: trio.Nursery, directory: Path, network: MemoryNetwork | None = None) -> LocalLauncher:
    listener = ListenerSettings("PUBLIC", Address("127.0.0.1", 0))
    managed = ManagedSpus(
        str(directory), (listener,), ListenerSettings("PRIVATE", Address("127.0.0.1", 0)), None, {}, True
    )
    # Any port of the real one may be some other program's at any time.
    seams = replace(real_seams(send_buffer_bytes=0), network=network or MemoryNetwork())
    launcher = LocalLauncher(managed, None, seams, LogSettings("info", None), nursery)
    launcher.on_controller(SC)
    return launcher


def _spu(number: int, group: str = "main", port: int = 0) -> Spu:
    return Spu(SpuSpec(SpuId(number), SpuType.MANAGED, group=group, public=PublicEndpoint(port)))


async def test_a_child_that_serves_is_known_by_its_address_until_it_is_stopped(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands]
) -> None:
    program(SERVING)
    launcher = _launcher(nursery, tmp_path)
    running = await launcher.launch(_spu(1))
    assert await launcher.first_addresses([SpuId(1)]) == [Address("127.0.0.1", 41000)]
    await running.stop()
    assert await running.wait() == "SIGTERM"


async def test_a_free_port_stays_the_same_at_the_next_start(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands]
) -> None:
    started = program(SERVING)
    launcher = _launcher(nursery, tmp_path)
    for _ in range(2):
        running = await launcher.launch(_spu(1))
        running.end()
        assert await running.wait() == "SIGKILL"
    assert [each.listeners[0].address.port for each in started] == [0, 41000]


async def test_an_spu_with_another_port_in_its_spec_starts_there_at_once(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands]
) -> None:
    started = program(SERVING)
    launcher = _launcher(nursery, tmp_path)
    for port in (41001, 41002, 41002):
        running = await launcher.launch(_spu(1, "more", port))
        running.end()
        await running.wait()
    assert [each.listeners[0].address.port for each in started] == [41001, 41002, 41002]


async def test_another_free_port_takes_the_place_of_one_that_is_taken(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands]
) -> None:
    started = program(SERVING)
    network = MemoryNetwork()
    launcher = _launcher(nursery, tmp_path, network)
    taken = await network.listen(Address("127.0.0.1", 0))
    running = await launcher.launch(_spu(1, "more", taken.address.port))
    assert started[0].listeners[0].address.port == 0
    await running.stop()
    taken.close()


async def test_who_waits_for_addresses_learns_that_there_will_be_none(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands]
) -> None:
    program("raise SystemExit(1)")
    launcher = _launcher(nursery, tmp_path)
    with pytest.raises(ProcessEndedError, match=r"^status 1$"):
        await launcher.launch(_spu(2))
    with pytest.raises(CannotServeError, match=r"^SPU 2 did not start: its process ended with status 1$"):
        await launcher.first_addresses([SpuId(2)])


async def test_a_directory_that_cannot_be_locked_is_named(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands]
) -> None:
    program(SERVING)
    launcher = _launcher(nursery, tmp_path)
    (tmp_path / "spu-1" / "lock").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        await launcher.launch(_spu(1))
    with pytest.raises(CannotServeError, match=r"^SPU 1 did not start: .*Is a directory: '.*/spu-1/lock'$"):
        await launcher.first_addresses([SpuId(1)])


async def test_a_child_that_says_something_else_is_no_spu(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands]
) -> None:
    program("import sys; print('hello', flush=True); sys.stdin.read()")
    with pytest.raises(ProcessEndedError, match=r"^SIGKILL$"):
        await _launcher(nursery, tmp_path).launch(_spu(1))


async def test_nothing_is_left_of_a_launch_that_was_cancelled(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("import sys; sys.stdin.read()")
    started = trio.Event()
    children: list[ChildProcess] = []

    async def start(arguments: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
        children.append(await start_child(arguments, environment))
        started.set()
        return children[0]

    monkeypatch.setattr(local_launcher, "start_child", start)
    launcher = _launcher(nursery, tmp_path)
    async with trio.open_nursery() as launching:
        launching.start_soon(launcher.launch, _spu(1))
        await started.wait()
        launching.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(children[0].pid, 0)


async def test_an_spu_waits_for_the_directory_that_an_earlier_one_still_holds(
    nursery: trio.Nursery, tmp_path: Path, program: Callable[[str], Commands]
) -> None:
    started = program("")
    launcher = _launcher(nursery, tmp_path)
    files = real_seams(send_buffer_bytes=0).files
    files.make_directories(str(tmp_path / "spu-1"))
    lock = files.lock(layout.lock_path(str(tmp_path / "spu-1")))
    assert lock is not None

    async def launch() -> None:
        with pytest.raises(ProcessEndedError):
            await launcher.launch(_spu(1))

    with trio.fail_after(20):
        async with trio.open_nursery() as launching:
            launching.start_soon(launch)
            await trio.testing.wait_all_tasks_blocked()
            assert started == []
            lock.release()
    assert len(started) == 1
