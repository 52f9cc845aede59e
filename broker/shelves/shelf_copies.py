"""The copies of shelves that lie here: how far others count on them, and what is wrong with them.

A copy that others count on goes on being read when it turns out to be damaged, as far as that is possible, until
another one is complete that is made beside it: the copy of another store may be damaged too, and in another place.
What nobody counts on makes way for another try.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio
from msgspec import Struct, field
from structlog.typing import FilteringBoundLogger

from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import SpuId
from tailrace.runtime.files import UnreadableError
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.directory.layout import ShelfKey
from tailrace.storage.log.log import Log
from tailrace.storage.log.shelf_logs import ShelfLogs
from tailrace.storage.segments.segment_recovery import LogDamagedError

from .shelf_duties import KeptShelf, KeptShelves


class DamagedShelfError(OSError):
    """What is to be done about it has been seen to."""


class Damage(Struct):
    reason: str
    readable: dict[int, bool] = field(default_factory=dict)
    """Of the segments that were looked through since, by where they begin: whether they may be read. Once is enough,
    however many want to read what is damaged."""


class ShelfCopies:
    def __init__(self, here: SpuId, logs: ShelfLogs, logger: FilteringBoundLogger) -> None:
        self.here = here
        self.logs = logs
        self.kept = KeptShelves(here)
        self.damaged: dict[ShelfKey, Damage] = {}
        """Those that others count on, and that another copy is to replace."""
        self.lacking: set[ShelfKey] = set()
        """Those that others count on, and that are to be filled from here."""
        self.doubted: set[ShelfKey] = set()
        """Those that may hold more than any specs say, of an epoch whose end is no part of the log any more."""
        self.is_to_mend = trio.Event()
        """There are damaged or lacking ones; made anew by whoever has seen it."""
        self._told: dict[ShelfKey, int] = {}
        """Up to where leaders were told that it is here: they may count on it before this is said by the specs."""
        self._logger = logger

    # what is to be here

    def apply(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> None:
        """See `KeptShelves`."""
        doubted = self.kept.apply(specs, removed, is_full=is_full)
        self.doubted = {key for key in (*self.doubted, *doubted) if key in self.kept}
        self.damaged = {key: damage for key, damage in self.damaged.items() if key in self.kept}
        self.lacking = {key for key in self.lacking if key in self.kept}

    @property
    def count(self) -> int:
        return len(self.kept)

    @property
    def size_bytes(self) -> int:
        """Of what is to be here: what is only kept for a while does not count."""
        replacements = sum(self.logs.size_bytes(self.logs.replacement(key)) for key in self.damaged)
        return replacements + sum(self.logs.size_bytes(self.logs.directory(each.key)) for each in self.kept)

    # how far others count on them

    def counted_end(self, kept: KeptShelf) -> int:
        return max(kept.counted_end, self._told.get(kept.key, 0))

    def on_told(self, key: ShelfKey, end: int) -> None:
        self._told[key] = end

    def on_cut(self, key: ShelfKey) -> None:
        """To where the specs say that it ends."""
        self._told.pop(key, None)
        self.doubted.discard(key)

    def forget_unnamed(self) -> None:
        self._told = {key: end for key, end in self._told.items() if key in self.kept}

    # their logs

    def to_read(self, kept: KeptShelf) -> AbstractAsyncContextManager[Log]:
        """Raises DamagedShelfError, and another OSError where nothing is known to be wrong with what is there."""
        return self._checked(kept, self.logs.directory(kept.key))

    def to_fill(self, kept: KeptShelf) -> AbstractAsyncContextManager[Log]:
        """The same; of a shelf that is damaged it is the copy that is to replace it."""
        is_damaged = kept.key in self.damaged
        return self._checked(kept, self.logs.replacement(kept.key) if is_damaged else self.logs.directory(kept.key))

    @asynccontextmanager
    async def _checked(self, kept: KeptShelf, directory: str) -> AsyncIterator[Log]:
        opened: Log | None = None
        try:
            async with self.logs.using(directory) as log:
                opened = log
                if kept.start < log.log_start < log.log_end:
                    raise LogDamagedError(f"{directory} begins at offset {log.log_start}, and not at {kept.start}")
                yield log
        except OSError as error:
            has_failed = opened is not None and opened.has_failed
            if has_failed or isinstance(error, (LogDamagedError, UnreadableError)):
                await self._on_damaged(kept.key, directory, str(error))
                raise DamagedShelfError(str(error)) from error
            raise

    # what is wrong with them

    async def _on_damaged(self, key: ShelfKey, directory: str, reason: str) -> None:
        kept = self.kept.find(key)
        if kept is None:
            return
        if directory == self.logs.directory(key) and self.counted_end(kept) > kept.start:
            if key not in self.damaged:
                self.log(key).error("shelf_damaged", reason=reason, is_only_copy=not kept.has_others)
                self.damaged[key] = Damage(reason)
            self.is_to_mend.set()
            return
        self.log(key).warning("shelf_begun_anew", reason=reason)
        try:
            await self.logs.remove(directory)
        except OSError as error:
            self.log(key).error("shelf_not_removed", reason=str(error))

    def on_lacking(self, kept: KeptShelf, end: int) -> None:
        """What is before is not all here, and somebody wanted to read it."""
        if end <= self.counted_end(kept):
            self.lacking.add(kept.key)
            self.is_to_mend.set()

    async def on_complete(self, kept: KeptShelf, *, is_replacement: bool) -> None:
        """All that others count on has been filled: it takes the place of what is damaged, if it was made for that.
        Damage that was found meanwhile is that of what was filled, and nothing is there to replace it. Raises OSError.
        """
        self.lacking.discard(kept.key)
        if is_replacement and kept.key in self.damaged:
            await self.logs.put_replacement_in_place(kept.key)
            self.damaged.pop(kept.key, None)  # it may be wanted no more by now
            self.log(kept.key).warning("shelf_mended", end=kept.shelf.end)

    def log(self, key: ShelfKey) -> FilteringBoundLogger:
        kept = self.kept.find(key)
        logger = self._logger if kept is None else self._logger.bind(topic=kept.spec.topic)
        return logger.bind(topic_id=str(key.topic_id), partition=key.partition, shelf=key.base)


async def delete_before_start(kept: KeptShelf, log: Log) -> None:
    """What has been deleted for good."""
    if kept.shelf.base < kept.start and log.log_start < kept.start <= log.log_end:
        with trio.CancelScope(shield=True):
            await log.advance_log_start(kept.start)
