"""The local provisioner: runs managed SPUs on this machine and restarts those that end.

It decides when to start and stop an SPU. The launcher decides what an SPU runs in, for example a child process.
"""

from functools import partial
from typing import Protocol

import trio
from msgspec.structs import replace

from tailrace.controller.objects.objects import Spu, SpuGroup, SpuSpec
from tailrace.protocol.ids import SpuId
from tailrace.runtime.logs import FilteringBoundLogger

from .supervised_process import RunningProcess, SupervisedProcess


class Launcher(Protocol):
    """Starts SPUs."""

    async def launch(self, spu: Spu) -> RunningProcess:
        """Starts the SPU and returns when it serves.

        Raises ProcessEndedError if it ended instead, and OSError if it could not be started. If this is cancelled,
        nothing keeps running.
        """

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        """Returns why an SPU group cannot be as wanted, or None if it can; `before` is the group as it is."""


class LocalProvisioner:
    """Supervises managed SPUs while `run` is running."""

    def __init__(self, launcher: Launcher, logger: FilteringBoundLogger) -> None:
        self._launcher = launcher
        self._logger = logger
        self._supervised: dict[SpuId, tuple[Spu, SupervisedProcess]] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Supervises the SPUs until it is cancelled; then SPUs that still run are ended at once."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    async def provision(self, spu: Spu) -> None:
        """Starts the SPU if it does not run. If its spec has changed, restarts it and returns when it serves again."""
        before = self._supervised.get(spu.spec.id)
        if before is not None and _as_launched(before[0].spec) == _as_launched(spu.spec):
            return
        if before is not None:
            await self.terminate(spu.spec.id)
        logger = self._logger.bind(spu=spu.spec.id)
        supervised = SupervisedProcess(
            partial(self._launcher.launch, spu),
            lambda status, _: logger.warning("spu_process_ended", status=status),
        )
        self._supervised[spu.spec.id] = spu, supervised
        assert self._nursery is not None, "the provisioner runs before it is used"
        self._nursery.start_soon(supervised.run)
        if before is not None:
            await supervised.serves.wait()

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        """Returns why an SPU group cannot be as wanted, or None if it can; `before` is the group as it is."""
        return self._launcher.refusal(wanted, before)

    async def terminate(self, spu: SpuId) -> None:
        """Stops the SPU cleanly, if it runs."""
        found = self._supervised.pop(spu, None)
        if found is not None:
            await found[1].stop()

    async def stop(self) -> None:
        """Stops all SPUs cleanly and concurrently."""
        async with trio.open_nursery() as nursery:
            for spu in list(self._supervised):
                nursery.start_soon(self.terminate, spu)


def _as_launched(spec: SpuSpec) -> SpuSpec:
    """Returns the part of the spec that needs a restart: the SC sends the size to the running SPU."""
    return replace(spec, size_bytes=None)
