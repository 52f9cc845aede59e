"""The logs of all shelves in a data directory, opened on use; a bounded number stays open.

A shelf is an ordinary log, but a damaged one is not repaired in place: a new copy is made beside it and replaces it.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from tailrace.runtime.descriptors import log_files_max
from tailrace.runtime.files import Files
from tailrace.storage.directory.directory_syncs import DirectorySyncs
from tailrace.storage.directory.layout import (
    REPLACEMENT_SUFFIX,
    ShelfKey,
    log_bytes,
    parse_shelf_name,
    removed_shelves_directory,
    shelf_directory,
    shelves_directory,
)
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig

from .log import Log

OPEN_LOGS_MAX = 64
OPEN_FILES_MAX = 32
"""The number of objects that hold an open file. More than one log is seldom used at a time."""
SEGMENT_BYTES_MAX = 128 * 2**20
"""The size of a segment, which is also what an opening scans at most without a pause if the log was not closed."""


class _Opened:
    """An open log and its current users."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.users = 0
        self.unused = trio.Event()
        """Set by the last user, if the log is to be closed."""
        self.is_to_go = False

    async def wait_until_unused(self) -> None:
        self.is_to_go = True
        if self.users:
            await self.unused.wait()

    def leave(self) -> None:
        self.users -= 1
        if self.is_to_go and not self.users:
            self.unused.set()


class ShelfLogs:
    """Opens, closes, replaces and removes the logs of shelves."""

    def __init__(self, data_directory: str, files: Files, *, open_logs_max: int = OPEN_LOGS_MAX) -> None:
        self._data_directory = data_directory
        self._files = files
        self._open_logs_max = open_logs_max
        self._config = LogConfig(segment_bytes_max=SEGMENT_BYTES_MAX)
        self._open_files = OpenFiles(files, min(OPEN_FILES_MAX, max(1, log_files_max(files.descriptors_max()) // 16)))
        self._directory_syncs = DirectorySyncs(files)
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        """The open logs by directory, in the order of their last use."""
        self._closed_cleanly: set[str] = set()
        """The directories of logs that this process has closed cleanly and not opened since."""
        self._sizes: dict[str, int] = {}
        """The sizes of logs that are not open."""
        self._uses = trio.Semaphore(open_logs_max)
        self._removed_count = 0
        self._changing = trio.Lock()
        """Held while a log is opened or closed."""

    # locations

    def directory(self, key: ShelfKey) -> str:
        return shelf_directory(self._data_directory, key)

    def replacement(self, key: ShelfKey) -> str:
        return self.directory(key) + REPLACEMENT_SUFFIX

    def found(self) -> list[ShelfKey]:
        """Returns all shelves that have a directory in this data directory."""
        return [key for name in self._files.list(self._all) if (key := parse_shelf_name(name)) is not None]

    def has(self, key: ShelfKey) -> bool:
        return bool(self._files.list(self.directory(key)))

    @property
    def _all(self) -> str:
        return shelves_directory(self._data_directory)

    async def end_replacements(self) -> None:
        """Finishes or discards the replacements that an earlier process began."""
        await self._files.discard_tree(removed_shelves_directory(self._data_directory))
        for name in self._files.list(self._all):
            key = parse_shelf_name(name.removesuffix(REPLACEMENT_SUFFIX))
            if key is None or not name.endswith(REPLACEMENT_SUFFIX):
                continue
            if self.has(key):
                await self.remove(self.replacement(key))
            else:
                await self._put_in_place(key)

    # use

    @asynccontextmanager
    async def using(self, directory: str) -> AsyncIterator[Log]:
        """Opens the log for the duration of the block, in which it is not closed. Raises OSError.

        A task must not use two logs at a time.
        """
        async with self._uses:
            opened = self._opened.get(directory)
            if opened is None or opened.log.has_failed:
                async with self._changing:
                    opened = await self._open(directory)
                    opened.users += 1
            else:
                opened.users += 1
            self._opened.move_to_end(directory)
            try:
                yield opened.log
            finally:
                opened.leave()

    async def _open(self, directory: str) -> _Opened:
        opened = self._opened.get(directory)
        if opened is not None and not opened.log.has_failed:
            return opened
        if opened is not None:
            await self._close(directory)
        while len(self._opened) >= self._open_logs_max:
            # There is an unused one, because `_uses` bounds the number of users.
            await self._close(next(each for each, opened in self._opened.items() if not opened.users))
        log = Log(
            self._files,
            directory,
            self._config,
            clean=directory in self._closed_cleanly or not self._files.list(directory),
            rewrite_unsynced=True,  # failed syncs of shelves are not recorded
            open_files=self._open_files,
            directory_syncs=self._directory_syncs,
        )
        self._closed_cleanly.discard(directory)
        self._sizes.pop(directory, None)
        opened = self._opened[directory] = _Opened(log)
        return opened

    async def _close(self, directory: str, *, is_to_stay: bool = True) -> None:
        """Closes the log once nothing uses it. If it cannot be closed cleanly, the next opening scans it."""
        opened = self._opened.pop(directory, None)
        if opened is None:
            return
        with trio.CancelScope(shield=True):
            await opened.wait_until_unused()
            was_sound = not opened.log.has_failed
            self._sizes[directory] = opened.log.size_bytes
            with suppress(OSError):
                await opened.log.close(clean=is_to_stay)
                if was_sound and is_to_stay:
                    self._closed_cleanly.add(directory)

    def size_bytes(self, directory: str) -> int:
        opened = self._opened.get(directory)
        if opened is not None:
            return opened.log.size_bytes
        size = self._sizes.get(directory)
        if size is None:
            size = self._sizes[directory] = log_bytes(self._files, directory)
        return size

    @property
    def open_count(self) -> int:
        return len(self._opened)

    async def close(self) -> None:
        async with self._changing:
            for directory in list(self._opened):
                await self._close(directory)

    # removal

    async def remove(self, *directories: str) -> None:
        """Removes the directories for good: they are not found again, even if the process ends meanwhile.

        Raises OSError.
        """
        removed = []
        async with self._changing:
            with trio.CancelScope(shield=True):
                for directory in directories:
                    if (path := await self._take_away(directory)) is not None:
                        removed.append(path)
        for path in removed:
            await self._files.discard_tree(path)

    async def put_replacement_in_place(self, key: ShelfKey) -> None:
        """Replaces a shelf by its new copy. Raises OSError."""
        async with self._changing:
            with trio.CancelScope(shield=True):
                await self._close(self.replacement(key))
                removed = await self._take_away(self.directory(key))
                await self._put_in_place(key)
        if removed is not None:
            await self._files.discard_tree(removed)

    async def _put_in_place(self, key: ShelfKey) -> None:
        new, old = self.replacement(key), self.directory(key)
        self._files.rename(new, old)
        self._sizes.pop(new, None)
        if new in self._closed_cleanly:
            self._closed_cleanly.remove(new)
            self._closed_cleanly.add(old)
        await self._files.sync_directory(self._all)

    async def _take_away(self, directory: str) -> str | None:
        """Moves a directory to where nothing opens it, since a directory without some of its files must not be taken
        for a log."""
        await self._close(directory, is_to_stay=False)
        self._closed_cleanly.discard(directory)
        self._sizes.pop(directory, None)
        if not self._files.exists(directory):
            return None
        all_removed = removed_shelves_directory(self._data_directory)
        self._removed_count += 1
        removed = f"{all_removed}/{self._removed_count}"
        await self._files.discard_tree(removed)
        self._files.make_directories(all_removed)
        self._files.rename(directory, removed)
        for renamed_in in (all_removed, self._data_directory, self._all):
            await self._files.sync_directory(renamed_in)
        return removed
