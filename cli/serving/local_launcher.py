"""Launches managed SPUs on this machine, as child processes or, if there is only one, in this process."""

import re
from collections.abc import Iterable, Sequence

import trio
from msgspec.structs import replace

from tailrace.broker.spu import Spu
from tailrace.broker.spu_server import SpuServer
from tailrace.controller.objects import objects
from tailrace.controller.spus.supervised_process import ProcessEndedError, RunningProcess
from tailrace.protocol.ids import SpuId
from tailrace.runtime import logs
from tailrace.runtime.child_process import ChildProcess, environment_without, start_child, status_text
from tailrace.runtime.network import Address, CannotListenError
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SpuSettings, parse_address
from tailrace.runtime.settings_sources import ENVIRONMENT_PREFIX
from tailrace.storage.directory import layout

from .managed_spus import ManagedSpus, child_command, child_variables
from .serving import CannotServeError, LogSettings

STOP_SECONDS_MAX = 30
"""How long an SPU may take to stop cleanly, with its logs synced, before it is killed."""
FREE_SECONDS_MAX = 15
"""How long an SPU of an earlier `up` that was killed may keep its data directory locked."""
FREE_AGAIN_SECONDS = 0.02
READY_LINE = re.compile(r"ready spu=\d+ bootstrap=(\S+) in \d+ ms")


class LocalLauncher:
    """Starts SPUs and knows where they serve."""

    def __init__(
        self,
        managed: ManagedSpus,
        here: SpuId | None,
        seams: Seams,
        log: LogSettings,
        nursery: trio.Nursery,
    ) -> None:
        """Prepares the launcher. `here` is the SPU that runs in this process; it runs in `nursery`."""
        self._managed = managed
        self._controller: Address | None = None
        """The private address of the SC; None until it serves."""
        self._controller_serves = trio.Event()
        self._here = here
        self._seams = seams
        self._log = log
        self._nursery = nursery
        self._addresses: dict[SpuId, tuple[Address, ...]] = {}
        """The addresses at which each SPU served when it was last ready."""
        self._wanted: dict[SpuId, tuple[ListenerSettings, ...]] = {}
        """The listeners that the settings gave each SPU when it was last ready."""
        self._refused: dict[SpuId, str] = {}
        """Why SPUs did not start."""
        self._changed = trio.Event()
        self.moved_metrics: dict[SpuId, int] = {}
        """The SPUs whose metrics had to move to another port, and the port that was in use."""

    def on_controller(self, private: Address) -> None:
        """Takes the address of the SC, for which launches wait."""
        self._controller = private
        self._controller_serves.set()

    async def launch(self, spu: objects.Spu) -> RunningProcess:
        """Starts an SPU and waits until it is ready. Raises ProcessEndedError or OSError."""
        spu_id = spu.spec.id
        await self._controller_serves.wait()
        assert self._controller is not None
        settings = self._managed.settings_of(spu, self._controller)
        wanted = settings.listeners
        running: RunningProcess
        try:
            if self._managed.secured is not None:
                settings = replace(settings, broker={**self._managed.secured.spu_settings(spu_id), **settings.broker})
            await self._until_free(settings.data_directory)
            settings = await self._with_ports(settings)
            if spu_id == self._here:
                running, addresses = await self._launch_here(settings)
            else:
                running, addresses = await self._launch_child(settings)
        except (ProcessEndedError, OSError) as error:
            self._refused[spu_id] = (
                f"its process ended with {error}" if isinstance(error, ProcessEndedError) else str(error)
            )
            raise
        else:
            self._addresses[spu_id] = tuple(addresses)
            self._wanted[spu_id] = wanted
        finally:
            self._changed.set()
        return running

    def refusal(self, wanted: objects.SpuGroup, before: objects.SpuGroup | None) -> str | None:
        """Returns why an SPU group cannot be as wanted here, or None if it can."""
        return self._managed.refusal(wanted, before)

    async def first_addresses(self, spus: Iterable[SpuId]) -> list[Address]:
        """Waits until all SPUs serve, and returns their addresses. Raises CannotServeError if one has ended."""
        wanted = list(spus)
        while not all(spu in self._addresses for spu in wanted):
            self._changed = trio.Event()
            for spu in wanted:
                if spu in self._refused and spu not in self._addresses:
                    raise CannotServeError(f"SPU {spu} did not start: {self._refused[spu]}")
            await self._changed.wait()
        return [address for spu in wanted for address in self._addresses[spu]]

    async def _until_free(self, data_directory: str) -> None:
        lock_path = layout.lock_path(data_directory)
        with trio.move_on_after(FREE_SECONDS_MAX):
            while self._seams.files.exists(lock_path):
                lock = self._seams.files.lock(lock_path)
                if lock is not None:
                    lock.release()
                    return
                await trio.sleep(FREE_AGAIN_SECONDS)

    async def _with_ports(self, settings: SpuSettings) -> SpuSettings:
        """Replaces ports that are in use.

        A restarted SPU keeps its ports, because clients reconnect to them, unless its spec has other ports now.
        """
        spu = SpuId(settings.id)
        before = dict(zip(self._wanted.get(spu, ()), self._addresses.get(spu, ()), strict=True))
        listeners = [
            replace(each, address=before[each], may_move=True) if each in before else each
            for each in settings.listeners
        ]
        metrics = None if settings.metrics is None else await self._where_free(settings.metrics)
        if metrics is not None and settings.metrics is not None and metrics.address != settings.metrics.address:
            self.moved_metrics[SpuId(settings.id)] = settings.metrics.address.port
        return replace(
            settings,
            listeners=tuple([await self._where_free(each) for each in listeners]),
            private=await self._where_free(settings.private),
            metrics=metrics,
        )

    async def _where_free(self, listener: ListenerSettings) -> ListenerSettings:
        if listener.may_move and listener.address.port != 0:
            try:
                (await self._seams.network.listen(listener.address)).close()
            except CannotListenError:
                return replace(listener, address=Address(listener.address.host, 0))
        return listener

    async def _launch_here(self, settings: SpuSettings) -> tuple[RunningProcess, Sequence[Address]]:
        running = _SpuHere(SpuServer(settings, self._seams, logs.get_logger(), traces=logs.shows_debug()))
        spu: Spu | None = await self._nursery.start(running.run)
        if spu is None:
            raise ProcessEndedError("a stop")
        return running, spu.addresses

    async def _launch_child(self, settings: SpuSettings) -> tuple[RunningProcess, Sequence[Address]]:
        environment = environment_without(ENVIRONMENT_PREFIX) | child_variables(settings)
        child = await start_child(child_command(settings, self._log), environment)
        running = _SpuChild(child)
        try:
            line = await child.read_line()
        except trio.Cancelled:
            running.end()  # the launch was cancelled, and an SPU may be killed at any time
            with trio.CancelScope(shield=True):
                await running.wait()
            raise
        ready = None if line is None else READY_LINE.fullmatch(line)
        if ready is None:
            running.end()
            raise ProcessEndedError(await running.wait())
        return running, [parse_address(text, "ready") for text in ready[1].split(",")]


class _SpuHere:
    """An SPU in this process."""

    def __init__(self, server: SpuServer) -> None:
        self._server = server
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run(self, task_status: trio.TaskStatus[Spu | None]) -> None:
        try:
            with self._scope:
                await self._server.run(task_status)
        finally:
            self._ended.set()

    async def wait(self) -> str:
        await self._ended.wait()
        return "a stop"

    async def stop(self) -> None:
        self._server.stop()
        with trio.move_on_after(STOP_SECONDS_MAX):
            await self._ended.wait()
        self.end()
        await self._ended.wait()

    def end(self) -> None:
        self._scope.cancel()


class _SpuChild:
    """An SPU in a child process."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._has_ended = False

    async def wait(self) -> str:
        status = await self._process.wait()
        self._has_ended = True
        await self._process.close()
        return status_text(status)

    async def stop(self) -> None:
        self._process.ask_to_stop()
        with trio.move_on_after(STOP_SECONDS_MAX):
            await self.wait()
            return
        self.end()
        await self.wait()

    def end(self) -> None:
        if not self._has_ended:
            self._process.kill()
