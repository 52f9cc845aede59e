"""The local provisioner: keeps the managed SPUs of this machine running, and starts one again that has died.

What an SPU runs in, a process or this one, is the launcher's business; when to start and to stop it is decided here.
"""

from typing import Protocol

import trio
from msgspec import Struct
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from tailrace.controller.objects.objects import Spu, SpuSpec
from tailrace.protocol.ids import SpuId

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 10.0
STABLE_SECONDS = 10.0
"""An SPU that ran for so long has not died of how it was started."""


class SpuEndedError(Exception):
    """The SPU ended before it served; says how."""


class RunningSpu(Protocol):
    async def wait(self) -> str:
        """How it ended, in words for the log."""

    async def stop(self) -> None:
        """Asks it to stop cleanly, ends it if that takes too long, and returns when it has ended."""

    def end(self) -> None:
        """Ends it at once, if it has not ended."""


class Launcher(Protocol):
    async def launch(self, spu: Spu) -> RunningSpu:
        """Returns when the SPU serves. SpuEndedError when it ended instead; OSError when it could not be started.
        Nothing is left of it when this is cancelled."""


class Restarts(Struct):
    """How long to wait before an SPU is started again."""

    pause_seconds: float = PAUSE_SECONDS_MIN

    def on_ended(self, lived_seconds: float) -> float:
        """The pause to make now. It doubles while the SPU does not live long."""
        if lived_seconds >= STABLE_SECONDS:
            self.pause_seconds = PAUSE_SECONDS_MIN
        pause = self.pause_seconds
        self.pause_seconds = min(2 * pause, PAUSE_SECONDS_MAX)
        return pause


class LocalProvisioner:
    """`run` must be running for SPUs to be."""

    def __init__(self, launcher: Launcher, logger: FilteringBoundLogger) -> None:
        self._launcher = launcher
        self._logger = logger
        self._kept: dict[SpuId, _SupervisedSpu] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; what still runs then is ended at once."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    async def provision(self, spu: Spu) -> None:
        """Another spec is another start: the old process is stopped, and this returns when the new one serves."""
        before = self._kept.get(spu.spec.id)
        if before is not None and _as_launched(before.spu.spec) == _as_launched(spu.spec):
            return
        if before is not None:
            await self.terminate(spu.spec.id)
        kept = self._kept[spu.spec.id] = _SupervisedSpu(spu, self._launcher, self._logger.bind(spu=spu.spec.id))
        assert self._nursery is not None, "the provisioner runs before it is used"
        self._nursery.start_soon(kept.run)
        if before is not None:
            await kept.serves.wait()

    async def terminate(self, spu: SpuId) -> None:
        kept = self._kept.pop(spu, None)
        if kept is not None:
            await kept.stop()

    async def stop(self) -> None:
        """Stops all SPUs, cleanly and at the same time."""
        async with trio.open_nursery() as nursery:
            for spu in list(self._kept):
                nursery.start_soon(self.terminate, spu)


class _SupervisedSpu:
    def __init__(self, spu: Spu, launcher: Launcher, logger: FilteringBoundLogger) -> None:
        self.spu = spu
        self.serves = trio.Event()
        self._launcher = launcher
        self._logger = logger
        self._restarts = Restarts()
        self._keeping = trio.CancelScope()
        self._running: RunningSpu | None = None
        self._ended = trio.Event()

    async def run(self) -> None:
        """Until `stop`; who is cancelled instead waits for no clean stop."""
        try:
            with self._keeping:
                await self._keep()
            if self._running is not None:
                await self._running.stop()
        finally:
            if self._running is not None:
                self._running.end()
            self._ended.set()

    async def _keep(self) -> None:
        while True:
            started_at = trio.current_time()
            how = await self._run_once()
            self._logger.warning("spu_process_ended", status=how)
            await trio.sleep(self._restarts.on_ended(trio.current_time() - started_at))

    async def _run_once(self) -> str:
        try:
            self._running = await self._launcher.launch(self.spu)
        except (SpuEndedError, OSError) as error:
            return str(error)
        self.serves.set()
        how = await self._running.wait()
        self._running = None
        return how

    async def stop(self) -> None:
        """Returns when it has ended, which the launcher bounds."""
        self._keeping.cancel()
        await self._ended.wait()


def _as_launched(spec: SpuSpec) -> SpuSpec:
    """Without what the SC tells the running SPU."""
    return replace(spec, size_bytes=None)
