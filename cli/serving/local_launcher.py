"""Launches managed SPUs on this machine: children of this process, and one in this process where that is enough."""

import re
from collections.abc import Iterable, Sequence

import trio
from msgspec.structs import replace

from tailrace.broker.spu import Spu
from tailrace.broker.spu_server import SpuServer
from tailrace.controller.objects import objects
from tailrace.controller.spus.local_provisioner import RunningSpu, SpuEndedError
from tailrace.protocol.ids import SpuId
from tailrace.runtime import logs
from tailrace.runtime.child_process import ChildProcess, environment_without, start_child, status_text
from tailrace.runtime.network import Address, CannotListenError
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SpuSettings, parse_address
from tailrace.runtime.settings_sources import ENVIRONMENT_PREFIX
from tailrace.storage.directory import layout

from .managed_spus import ManagedSpus, child_command
from .serving import CannotServeError, LogSettings

STOP_SECONDS_MAX = 30
"""Afterwards an SPU is ended; it brings its logs to the disk meanwhile."""
FREE_SECONDS_MAX = 15
"""For so long an SPU of an earlier `up` that was killed may hold on to its directory."""
FREE_AGAIN_SECONDS = 0.02
READY_LINE = re.compile(r"ready spu=\d+ bootstrap=(\S+) in \d+ ms")


class LocalLauncher:
    def __init__(
        self,
        managed: ManagedSpus,
        here: SpuId | None,
        seams: Seams,
        log: LogSettings,
        nursery: trio.Nursery,
    ) -> None:
        """`here`: the SPU that runs in this process, in the nursery; its errors are ours."""
        self._managed = managed
        self._controller: Address | None = None
        """Where the SPUs find the SC."""
        self._controller_serves = trio.Event()
        self._here = here
        self._seams = seams
        self._log = log
        self._nursery = nursery
        self._addresses: dict[SpuId, tuple[Address, ...]] = {}
        """Where each SPU served when it was last ready."""
        self._refused: dict[SpuId, str] = {}
        self._changed = trio.Event()

    def on_controller(self, private: Address) -> None:
        """The SC serves SPUs at this address. Launches wait for that."""
        self._controller = private
        self._controller_serves.set()

    async def launch(self, spu: objects.Spu) -> RunningSpu:
        spu_id = spu.spec.id
        await self._controller_serves.wait()
        assert self._controller is not None
        settings = self._managed.settings_of(spu, self._controller)
        running: RunningSpu
        try:
            await self._until_free(settings.data_directory)
            settings = await self._with_ports(settings)
            if spu_id == self._here:
                running, addresses = await self._launch_here(settings)
            else:
                running, addresses = await self._launch_child(settings)
        except (SpuEndedError, OSError) as error:
            self._refused[spu_id] = f"it ended with {error}" if isinstance(error, SpuEndedError) else str(error)
            raise
        else:
            self._addresses[spu_id] = tuple(addresses)
        finally:
            self._changed.set()
        return running

    async def first_addresses(self, spus: Iterable[SpuId]) -> list[Address]:
        """Where they serve, once all of them do; CannotServeError when one has ended instead."""
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
        """Clients come back to where they were, so an SPU keeps what it had; else it moves away from what is taken."""
        kept = self._addresses.get(SpuId(settings.id))
        listeners = [
            replace(each, address=kept[number], may_move=True) if kept else each
            for number, each in enumerate(settings.listeners)
        ]
        metrics = settings.metrics
        return replace(
            settings,
            listeners=tuple([await self._where_free(each) for each in listeners]),
            private=await self._where_free(settings.private),
            metrics=None if metrics is None else await self._where_free(metrics),
        )

    async def _where_free(self, listener: ListenerSettings) -> ListenerSettings:
        if listener.may_move and listener.address.port != 0:
            try:
                (await self._seams.network.listen(listener.address)).close()
            except CannotListenError:
                return replace(listener, address=Address(listener.address.host, 0))
        return listener

    async def _launch_here(self, settings: SpuSettings) -> tuple[RunningSpu, Sequence[Address]]:
        running = _SpuHere(SpuServer(settings, self._seams, logs.get_logger(), traces=logs.shows_debug()))
        spu: Spu | None = await self._nursery.start(running.run)
        if spu is None:
            raise SpuEndedError("a stop")
        return running, spu.addresses

    async def _launch_child(self, settings: SpuSettings) -> tuple[RunningSpu, Sequence[Address]]:
        child = await start_child(child_command(settings, self._log), environment_without(ENVIRONMENT_PREFIX))
        running = _SpuChild(child)
        try:
            line = await child.read_line()
        except trio.Cancelled:
            running.end()  # nobody waits for what it does, and it is made to be killed
            with trio.CancelScope(shield=True):
                await running.wait()
            raise
        ready = None if line is None else READY_LINE.fullmatch(line)
        if ready is None:
            running.end()
            raise SpuEndedError(await running.wait())
        return running, [parse_address(text, "ready") for text in ready[1].split(",")]


class _SpuHere:
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
