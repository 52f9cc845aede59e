"""The local provisioner: runs managed SPUs on this machine and restarts those that end.

It decides when to start and stop an SPU. The launcher decides what an SPU runs in, for example a child process.
"""

from typing import Protocol

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.controller.objects.objects import Spu, SpuGroup, SpuSpec
from tailrace.protocol.ids import SpuId
from tailrace.runtime.logs import FilteringBoundLogger

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 10.0
STABLE_SECONDS = 10.0
"""How long an SPU must run so that its end does not count as a failed start."""


class SpuEndedError(Exception):
    """An SPU ended before it served; the message says how."""


class RunningSpu(Protocol):
    """An SPU that the launcher has started."""

    async def wait(self) -> str:
        """Waits until the SPU has ended, and returns how, in words for the log."""

    async def stop(self) -> None:
        """Asks the SPU to stop cleanly, ends it if that takes too long, and returns when it has ended."""

    def end(self) -> None:
        """Ends the SPU at once, if it has not ended."""


class Launcher(Protocol):
    """Starts SPUs."""

    async def launch(self, spu: Spu) -> RunningSpu:
        """Starts the SPU and returns when it serves.

        Raises SpuEndedError if it ended instead, and OSError if it could not be started. If this is cancelled, nothing
        keeps running.
        """

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        """Returns why an SPU group cannot be as wanted, or None if it can; `before` is the group as it is."""


class Restarts(Struct):
    """The pause before an SPU is started again."""

    pause_seconds: float = PAUSE_SECONDS_MIN

    def on_ended(self, lived_seconds: float) -> float:
        """Returns the pause before the next start. It doubles while the SPU does not run for long."""
        if lived_seconds >= STABLE_SECONDS:
            self.pause_seconds = PAUSE_SECONDS_MIN
        pause = self.pause_seconds
        self.pause_seconds = min(2 * pause, PAUSE_SECONDS_MAX)
        return pause


class LocalProvisioner:
    """Supervises managed SPUs while `run` is running."""

    def __init__(self, launcher: Launcher, logger: FilteringBoundLogger) -> None:
        self._launcher = launcher
        self._logger = logger
        self._supervised: dict[SpuId, _SupervisedSpu] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Supervises the SPUs until it is cancelled; then SPUs that still run are ended at once."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    async def provision(self, spu: Spu) -> None:
        """Starts the SPU if it does not run. If its spec has changed, restarts it and returns when it serves again."""
        before = self._supervised.get(spu.spec.id)
        if before is not None and _as_launched(before.spu.spec) == _as_launched(spu.spec):
            return
        if before is not None:
            await self.terminate(spu.spec.id)
        supervised = self._supervised[spu.spec.id] = _SupervisedSpu(
            spu, self._launcher, self._logger.bind(spu=spu.spec.id)
        )
        assert self._nursery is not None, "the provisioner runs before it is used"
        self._nursery.start_soon(supervised.run)
        if before is not None:
            await supervised.serves.wait()

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        """Returns why an SPU group cannot be as wanted, or None if it can; `before` is the group as it is."""
        return self._launcher.refusal(wanted, before)

    async def terminate(self, spu: SpuId) -> None:
        """Stops the SPU cleanly, if it runs."""
        supervised = self._supervised.pop(spu, None)
        if supervised is not None:
            await supervised.stop()

    async def stop(self) -> None:
        """Stops all SPUs cleanly and concurrently."""
        async with trio.open_nursery() as nursery:
            for spu in list(self._supervised):
                nursery.start_soon(self.terminate, spu)


class _SupervisedSpu:
    """One SPU, which is restarted whenever it ends."""

    def __init__(self, spu: Spu, launcher: Launcher, logger: FilteringBoundLogger) -> None:
        self.spu = spu
        self.serves = trio.Event()
        self._launcher = launcher
        self._logger = logger
        self._restarts = Restarts()
        self._supervision = trio.CancelScope()
        self._running: RunningSpu | None = None
        self._ended = trio.Event()

    async def run(self) -> None:
        """Keeps the SPU running until `stop`. If it is cancelled instead, the SPU is ended at once."""
        try:
            with self._supervision:
                await self._supervise()
            if self._running is not None:
                await self._running.stop()
        finally:
            if self._running is not None:
                self._running.end()
            self._ended.set()

    async def _supervise(self) -> None:
        while True:
            started_at = trio.current_time()
            status = await self._run_once()
            self._logger.warning("spu_process_ended", status=status)
            await trio.sleep(self._restarts.on_ended(trio.current_time() - started_at))

    async def _run_once(self) -> str:
        try:
            self._running = await self._launcher.launch(self.spu)
        except (SpuEndedError, OSError) as error:
            return str(error)
        self.serves.set()
        status = await self._running.wait()
        self._running = None
        return status

    async def stop(self) -> None:
        """Stops the SPU and returns when it has ended. The launcher limits how long that takes."""
        self._supervision.cancel()
        await self._ended.wait()


def _as_launched(spec: SpuSpec) -> SpuSpec:
    """Returns the part of the spec that needs a restart: the SC sends the size to the running SPU."""
    return replace(spec, size_bytes=None)
