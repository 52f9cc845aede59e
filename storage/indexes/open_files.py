"""Bounds the number of open files over all logs: what has not been used for long is closed, and opens on its next use.

A log of thousands of idle partitions holds no descriptors for them. What a reader still sends from stays open until it
is sent: a file closes with its last reference.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from tailrace.runtime.descriptors import are_used_up
from tailrace.runtime.files import File, Files

from .lookup_reads import CountedFile, LookupReads

OPEN_FILES_MAX = 4096
FILES_A_HOLDER_MAX = 2
"""A log holds one, an index the two that are mapped."""


class Holder(Protocol):
    used: bool
    """Set on each use; cleared when the pool looked for something to close and passed it by."""

    def release(self) -> None:
        """Lets go of the file; the holder opens it again on its next use."""


class OpenFiles:
    """A second-chance queue of those who hold a file: a use, which is often, costs less than in a list by last use."""

    __slots__ = ("_holders", "_limit", "files", "lookups", "on_index_rebuilt")

    def __init__(self, files: Files, limit: int = OPEN_FILES_MAX, lookups: LookupReads | None = None) -> None:
        self.files = files
        self.lookups = lookups or LookupReads()
        self.on_index_rebuilt: Callable[[str], None] = _unheard
        """Is told which file was missing or damaged, when it was needed, and is there again."""
        self._limit = limit
        self._holders: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def open(self, path: str, *, create: bool = False) -> File:
        """Where all files that the process may have are open, those that logs hold for later are closed."""
        try:
            return self.files.open(path, create=create)
        except OSError as error:
            if not are_used_up(error) or not self._holders:
                raise
        while self._holders:
            self._holders.popitem()[0].release()
        return self.files.open(path, create=create)

    def opened(self, holder: Holder) -> None:
        """The holder has just opened its file; another may have to close one. What is used once only goes first."""
        self._holders.pop(holder, None)  # an index that has grown is opened anew, and must not be the one that goes
        while len(self._holders) >= self._limit:
            candidate, _ = self._holders.popitem(last=False)
            if candidate.used:
                candidate.used = False
                self._holders[candidate] = None
            else:
                candidate.release()
        holder.used = False
        self._holders[holder] = None

    def close(self, holder: Holder) -> None:
        holder.release()
        self._holders.pop(holder, None)


def _unheard(_: str) -> None:
    pass


class LazyFile:
    """A file that opens on use."""

    __slots__ = ("_create", "_file", "_open_files", "path", "used")

    def __init__(self, open_files: OpenFiles, path: str, *, create: bool = False) -> None:
        self.path = path
        self.used = False
        self._open_files = open_files
        self._create = create
        self._file: File | None = None

    def get(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._open_files.open(self.path, create=self._create)
            self._open_files.opened(self)
        else:
            self.used = True
        return file

    def looked_up(self) -> CountedFile:
        """To find a batch in it."""
        return self._open_files.lookups.begin(self.get())

    def release(self) -> None:
        self._file = None

    def close(self) -> None:
        self._open_files.close(self)
