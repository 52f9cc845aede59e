"""The life of an SPU: takes the data directory, listens, serves until it is stopped, and leaves the directory clean."""

from contextlib import ExitStack

import trio

from tailrace.broker.controller_link.sc_connection import RefusedForGoodError
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.ids import SpuId
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Listener
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SpuSettings
from tailrace.server.auditing.audit_opening import open_audit
from tailrace.server.listening import listen
from tailrace.server.security import load_server_security

from .spu import Listeners, Spu
from .spu_storage import StartError, take_storage


class SpuServer:
    """Runs one SPU in one process. Call `run` once."""

    def __init__(
        self, settings: SpuSettings, seams: Seams, logger: FilteringBoundLogger, *, traces: bool = False
    ) -> None:
        """`traces` logs the way of each message about a replica, at the level debug."""
        self.settings = settings
        self.spu: Spu | None = None
        """The SPU. None until the data directory is taken and the listeners are open."""
        self._seams = seams
        self._logger = logger.bind(spu=settings.id)
        self._traces = traces
        self._stopping = trio.Event()

    def stop(self) -> None:
        """Asks for a clean stop. `run` returns when all data is on the disk."""
        self._stopping.set()

    async def run(self, task_status: trio.TaskStatus[Spu | None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until `stop`. Raises StartError and SettingsError.

        Reports the SPU when clients may connect, that is, when the Streaming Controller has sent its specs. Reports
        None if it is stopped before.
        """
        refused: BaseException | None = None
        with ExitStack() as held:
            settings = self.settings
            security = load_server_security(settings.broker, _names(settings), self._seams.files, self._logger)
            storage = await take_storage(SpuId(settings.id), settings.data_directory, self._seams, self._logger, held)
            configs = BrokerConfigs(settings.broker)
            audit = await open_audit(
                configs, f"spu-{settings.id}", settings.data_directory, self._seams, self._logger, self.stop
            )
            try:
                with ExitStack() as listening:
                    listeners = await self._listen(listening)
                    async with trio.open_nursery() as nursery:
                        if audit is not None:
                            await nursery.start(audit.trail.run)
                        self.spu = Spu(
                            settings,
                            self._seams,
                            storage,
                            listeners,
                            security,
                            nursery,
                            self._logger,
                            traces=self._traces,
                            audit=audit,
                        )
                        await self.spu.serve(self._stopping, task_status)
                        nursery.cancel_scope.cancel()
            except* RefusedForGoodError as errors:
                refused = first_error(errors)
            # The listeners are closed: a client that tries to connect learns at once that this SPU is gone.
            assert self.spu is not None
            await self.spu.close()
        if refused is not None:
            raise StartError(str(refused)) from refused
        self._logger.info("spu_stopped")

    async def _listen(self, listening: ExitStack) -> Listeners:
        """Opens the listeners. They close with the stack."""

        async def open_one(settings: ListenerSettings) -> Listener:
            listener = await listen(self._seams.network, settings)
            listening.callback(listener.close)
            return listener

        settings = self.settings
        return Listeners(
            public=[(await open_one(each), each) for each in settings.listeners],
            private=await open_one(settings.private),
            metrics=None if settings.metrics is None else await open_one(settings.metrics),
        )


def _names(settings: SpuSettings) -> list[str]:
    """Returns the names of the listeners."""
    listeners = (*settings.listeners, settings.private, settings.metrics)
    return [each.name for each in listeners if each is not None]
