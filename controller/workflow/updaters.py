"""Updaters: each carries out the actions for one destination, at the pace of that destination.

An updater keeps only the newest waiting action for each object. So its queue is bounded by the number of objects, and
controllers never wait for it. Dropping an older action is safe: decisions are made from the whole state, and made again
when the newer version of the object arrives.
"""

from itertools import islice
from typing import Protocol

import trio
from msgspec import Struct, field

from tailrace.controller.key_value import interface as key_value
from tailrace.controller.key_value.interface import Entry, KeyValueStore, StoreUnavailable
from tailrace.controller.objects.objects import Spu, SpuGroup
from tailrace.controller.state.actions import ConnectionAction, KvAction, Provision, ProvisionerAction, Put
from tailrace.controller.state.object_codec import OversizedError, change_of, key_of
from tailrace.controller.state.object_names import ObjectNames, kind_of
from tailrace.protocol.ids import SpuId
from tailrace.runtime.logs import FilteringBoundLogger, shows_debug

from .readers import Backoff, WrittenObject

CHANGES_PER_WRITE_MAX = 200
PROVISIONING_SECONDS_MAX = 60


class UpdaterCounts(Struct):
    """The counts of the updaters, for metrics."""

    written_objects: int = 0
    lost_writes: int = 0
    """Writes whose compare-and-set found another version, which arrives as an event and is decided about."""
    oversized_objects: int = 0
    """Objects that were too large to be stored."""
    failed_writes: int = 0
    failed_provisions: int = 0


class KvUpdater:
    """Writes objects by compare-and-set, in the order of the decisions and in batches."""

    def __init__(
        self,
        store: KeyValueStore,
        counts: UpdaterCounts,
        logger: FilteringBoundLogger,
        guard: Entry | None = None,
    ) -> None:
        """`guard` is the entry by which this SC is active, if there may be several SCs."""
        self._store = store
        self._counts = counts
        self._logger = logger
        self._guard = guard
        self.written: dict[str, WrittenObject] = {}
        """The objects that are being written, by key, for the reader."""
        self._waiting: dict[str, KvAction] = {}
        self._being_written: dict[str, KvAction] = {}
        self._wake = trio.Event()

    @property
    def waiting(self) -> int:
        """The number of actions that wait."""
        return len(self._waiting)

    def take(self, action: KvAction) -> None:
        """Takes an action, which replaces an older one for the same object."""
        self._waiting[key_of(action.object)] = action
        self._wake.set()

    def withdraw_status(self, spu: Spu) -> None:
        """Drops a waiting write of another status for this SPU.

        A write that is under way may still succeed. Then it comes back as an event, and is decided about again.
        """
        key = key_of(spu)
        for actions in (self._waiting, self._being_written):
            action = actions.get(key)
            if isinstance(action, Put) and isinstance(action.object, Spu) and action.object.spec == spu.spec:
                del actions[key]

    async def run(self) -> None:
        """Writes until it is cancelled. Raises LeadershipLost."""
        backoff = Backoff()
        while True:
            await self._wake.wait()
            batch = self._being_written = dict(islice(self._waiting.items(), CHANGES_PER_WRITE_MAX))
            for key in batch:
                del self._waiting[key]
            if not self._waiting:
                self._wake = trio.Event()
            try:
                await self._write(batch)
                backoff.reset()
            except StoreUnavailable as reason:
                # Some changes may have been written. Writing them again has no effect, since their versions differ now.
                self._waiting = batch | self._waiting
                self._wake.set()
                self._counts.failed_writes += 1
                self._logger.warning("store_unavailable", doing="writing", reason=str(reason))
                await backoff.wait()

    async def _write(self, batch: dict[str, KvAction]) -> None:
        changes = [change for key, action in batch.items() if (change := self._change(key, action)) is not None]
        if not changes:
            return
        versions = await self._store.write(changes, self._guard)
        lost = [change.key for change, version in zip(changes, versions, strict=True) if version is None]
        for key in lost:
            self.written.pop(key, None)
        self._counts.written_objects += len(changes) - len(lost)
        self._counts.lost_writes += len(lost)
        if shows_debug():
            objects = [ObjectNames.of_object(action.object) for action in batch.values()]
            self._logger.debug("update_written", updater="store", changes=len(changes), objects=objects, lost=lost)

    def _change(self, key: str, action: KvAction) -> key_value.Change | None:
        try:
            change = change_of(action)
        except OversizedError as error:
            self._counts.oversized_objects += 1
            self._logger.error("object_too_large", key=key, size_bytes=error.size_bytes)
            return None
        if isinstance(change, key_value.Put):
            self.written[key] = WrittenObject(change.value, action.object)
        return change


class Connections(Protocol):
    """The Connection Manager as the destination of actions."""

    def apply(self, action: ConnectionAction) -> None:
        """Carries out an action without waiting. What cannot be sent yet is remembered by object."""


class ConnectionUpdater:
    """Hands actions to the Connection Manager."""

    def __init__(self, connections: Connections, logger: FilteringBoundLogger, names: ObjectNames) -> None:
        self._connections = connections
        self._logger = logger
        self._names = names

    def take(self, action: ConnectionAction) -> None:
        self._connections.apply(action)
        if shows_debug():
            name = self._names.of_action(action)
            self._logger.debug("update_written", updater="connections", action=kind_of(action), objects=[name])


class Provisioner(Protocol):
    """Starts and stops managed SPUs. Both calls may raise OSError; then they are retried later."""

    async def provision(self, spu: Spu) -> None:
        """Makes the SPU run as its spec says from now on, and restarts it when it ends."""

    async def terminate(self, spu: SpuId) -> None:
        """Stops the SPU, if it runs."""

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        """Returns why an SPU group cannot be as wanted, or None if it can.

        `before` is the group as it is, or None for a new group.
        """


class NoProvisioner:
    """The provisioner of an SC that starts no SPUs. Managed SPUs stay registered, and others may start them."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger

    async def provision(self, spu: Spu) -> None:
        self._logger.warning(
            "spu_not_provisioned", spu=spu.spec.id, group=spu.spec.group, reason="nothing here starts managed SPUs"
        )
        await trio.lowlevel.checkpoint()

    async def terminate(self, spu: SpuId) -> None:
        self._logger.warning("spu_not_terminated", spu=spu, reason="nothing here stops managed SPUs")
        await trio.lowlevel.checkpoint()

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        return None


class ProvisionerUpdater(Struct):
    """Carries out actions with the provisioner, one at a time."""

    provisioner: Provisioner
    counts: UpdaterCounts
    logger: FilteringBoundLogger
    _waiting: dict[SpuId, ProvisionerAction] = field(default_factory=dict)
    _wake: trio.Event = field(default_factory=trio.Event)

    def take(self, action: ProvisionerAction) -> None:
        self._waiting[_spu_of(action)] = action
        self._wake.set()

    async def run(self) -> None:
        """Carries out actions until it is cancelled. An action that failed is retried after the others."""
        backoff = Backoff()
        while True:
            await self._wake.wait()
            spu_id, action = next(iter(self._waiting.items()))
            del self._waiting[spu_id]
            if not self._waiting:
                self._wake = trio.Event()
            if await self._carry_out(action):
                backoff.reset()
                continue
            if self._waiting.setdefault(spu_id, action) is action:
                self._wake.set()
            await backoff.wait()

    async def _carry_out(self, action: ProvisionerAction) -> bool:
        """Carries out an action and returns whether it succeeded."""
        what = type(action).__name__
        try:
            with trio.fail_after(PROVISIONING_SECONDS_MAX):
                if isinstance(action, Provision):
                    await self.provisioner.provision(action.spu)
                else:
                    await self.provisioner.terminate(action.spu)
        except (OSError, trio.TooSlowError) as error:
            self.counts.failed_provisions += 1
            reason = str(error) or f"it took more than {PROVISIONING_SECONDS_MAX} seconds"
            self.logger.error("provisioning_failed", spu=_spu_of(action), action=what, reason=reason)
            return False
        self.logger.debug("update_written", updater="provisioner", action=what, objects=[f"spu/{_spu_of(action)}"])
        return True


def _spu_of(action: ProvisionerAction) -> SpuId:
    return action.spu.spec.id if isinstance(action, Provision) else action.spu
