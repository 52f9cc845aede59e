"""The copies of shelves on this SPU: how far others rely on each, and which are damaged or incomplete.

This is the storing SPU's side. A damaged copy that others rely on continues to be read as far as possible, until a new
copy beside it is complete: the copy of another store may be damaged too, in another place. A damaged copy on which
others do not rely is deleted and filled again.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio
from msgspec import Struct, field

from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import SpuId
from tailrace.runtime.files import UnreadableError
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.directory.layout import ShelfKey
from tailrace.storage.log.log import Log
from tailrace.storage.log.shelf_logs import ShelfLogs
from tailrace.storage.segments.segment_recovery import LogDamagedError

from .shelf_duties import ShelfDuties, ShelfDuty


class DamagedShelfError(OSError):
    """A copy is damaged, and its repair or removal is arranged already."""


class Damage(Struct):
    """What is known about a damaged copy."""

    reason: str
    readable: dict[int, bool] = field(default_factory=dict)
    """Whether a segment may be read, by its base offset. Each segment is checked once, at its first read."""


class ShelfCopies:
    """The state of all copies on this SPU, which all tasks of the storing side share."""

    def __init__(self, own_id: SpuId, logs: ShelfLogs, logger: FilteringBoundLogger) -> None:
        self.own_id = own_id
        self.logs = logs
        self.duties = ShelfDuties(own_id)
        self.damaged: dict[ShelfKey, Damage] = {}
        """The damaged copies on which others rely. Each is to be replaced by a new copy."""
        self.incomplete: set[ShelfKey] = set()
        """The copies that lack records on which others rely."""
        self.maybe_diverged: set[ShelfKey] = set()
        """The copies that may hold, beyond what specs confirm, records that an unclean election removed."""
        self.repair_wanted = trio.Event()
        """Set when there are damaged or incomplete copies. The task that repairs them replaces the event."""
        self._confirmed: dict[ShelfKey, int] = {}
        """The end of each copy that a leader was told. The leader may rely on it before the specs say so."""
        self._logger = logger

    # duties

    def apply(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> None:
        """Applies specs as `ShelfDuties.apply` does, and forgets the state of copies that are not needed any more."""
        maybe_diverged = self.duties.apply(specs, removed, is_full=is_full)
        self.maybe_diverged = {key for key in (*self.maybe_diverged, *maybe_diverged) if key in self.duties}
        self.damaged = {key: damage for key, damage in self.damaged.items() if key in self.duties}
        self.incomplete = {key for key in self.incomplete if key in self.duties}

    @property
    def count(self) -> int:
        return len(self.duties)

    @property
    def size_bytes(self) -> int:
        """The size of all copies that specs assign to this SPU, and of their replacements."""
        replacements = sum(self.logs.size_bytes(self.logs.replacement(key)) for key in self.damaged)
        return replacements + sum(self.logs.size_bytes(self.logs.directory(each.key)) for each in self.duties)

    # how far others rely on the copies

    def confirmed_end(self, duty: ShelfDuty) -> int:
        """The offset before which others rely on the copy, by the specs or by a response of this SPU."""
        return max(duty.confirmed_end, self._confirmed.get(duty.key, 0))

    def on_confirmed(self, key: ShelfKey, end: int) -> None:
        self._confirmed[key] = end

    def on_truncated(self, key: ShelfKey) -> None:
        """Notes that a copy was truncated to the end that the specs confirm."""
        self._confirmed.pop(key, None)
        self.maybe_diverged.discard(key)

    def forget_unassigned(self) -> None:
        self._confirmed = {key: end for key, end in self._confirmed.items() if key in self.duties}

    # logs of the copies

    def open_to_read(self, duty: ShelfDuty) -> AbstractAsyncContextManager[Log]:
        """Opens the copy that is read, even if it is damaged.

        Raises DamagedShelfError, or another OSError if no damage is known.
        """
        return self._checked(duty, self.logs.directory(duty.key))

    def open_to_fill(self, duty: ShelfDuty) -> AbstractAsyncContextManager[Log]:
        """Opens the copy that is filled: the replacement, if the copy is damaged.

        Raises DamagedShelfError, or another OSError if no damage is known.
        """
        is_damaged = duty.key in self.damaged
        return self._checked(duty, self.logs.replacement(duty.key) if is_damaged else self.logs.directory(duty.key))

    @asynccontextmanager
    async def _checked(self, duty: ShelfDuty, directory: str) -> AsyncIterator[Log]:
        opened: Log | None = None
        try:
            async with self.logs.using(directory) as log:
                opened = log
                if duty.start < log.log_start < log.log_end:
                    raise LogDamagedError(
                        f"{directory} begins at offset {log.log_start}, although the shelf begins at {duty.start}"
                    )
                yield log
        except OSError as error:
            has_failed = opened is not None and opened.has_failed
            if has_failed or isinstance(error, (LogDamagedError, UnreadableError)):
                await self._on_damaged(duty.key, directory, str(error))
                raise DamagedShelfError(str(error)) from error
            raise

    # damaged and incomplete copies

    async def _on_damaged(self, key: ShelfKey, directory: str, reason: str) -> None:
        duty = self.duties.find(key)
        if duty is None:
            return
        if directory == self.logs.directory(key) and self.confirmed_end(duty) > duty.start:
            if key not in self.damaged:
                self.logger_of(key).error("shelf_damaged", reason=reason, is_only_copy=not duty.has_others)
                self.damaged[key] = Damage(reason)
            self.repair_wanted.set()
            return
        self.logger_of(key).warning("shelf_copy_discarded", reason=reason)
        try:
            await self.logs.remove(directory)
        except OSError as error:
            self.logger_of(key).error("shelf_not_removed", reason=str(error))

    def on_incomplete(self, duty: ShelfDuty, end: int) -> None:
        """Notes that a reader wanted records before `end` that the copy lacks."""
        if end <= self.confirmed_end(duty):
            self.incomplete.add(duty.key)
            self.repair_wanted.set()

    async def on_complete(self, duty: ShelfDuty, *, is_replacement: bool) -> None:
        """Notes that a copy has everything on which others rely, and puts a replacement in the place of the old copy.

        If the filled copy was no replacement, and damage was found while it was filled, that damage is in the filled
        copy itself, and no replacement exists yet. Raises OSError.
        """
        self.incomplete.discard(duty.key)
        if is_replacement and duty.key in self.damaged:
            await self.logs.put_replacement_in_place(duty.key)
            self.damaged.pop(duty.key, None)  # new specs may have removed it meanwhile
            self.logger_of(duty.key).warning("shelf_repaired", end=duty.shelf.end)

    def logger_of(self, key: ShelfKey) -> FilteringBoundLogger:
        duty = self.duties.find(key)
        logger = self._logger if duty is None else self._logger.bind(topic=duty.spec.topic)
        return logger.bind(topic_id=str(key.topic_id), partition=key.partition, shelf=key.base)


async def delete_before_start(duty: ShelfDuty, log: Log) -> None:
    """Deletes the records of a copy that are deleted for good."""
    if duty.shelf.base < duty.start and log.log_start < duty.start <= log.log_end:
        with trio.CancelScope(shield=True):
            await log.advance_log_start(duty.start)
