"""Bounds the number of open files over all logs by closing those that were not used for long.

A closed file opens again on its next use, so thousands of idle partitions hold no descriptors. A file that a response
is still being sent from stays open: it closes with its last reference.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from tailrace.runtime.descriptors import is_out_of_files
from tailrace.runtime.files import File, Files

from .lookup_reads import CountedFile, LookupReads

OPEN_FILES_MAX = 4096
FILES_A_HOLDER_MAX = 2
"""The most files that one holder has open: a log holds one, an index its two mapped files."""


class Holder(Protocol):
    """An object that holds an open file."""

    used: bool
    """Set on each use. Cleared when the pool looked for a file to close and passed over this one."""

    def release(self) -> None:
        """Drops the reference to the file. The holder opens the file again on its next use."""


class OpenFiles:
    """A second-chance queue of the objects that hold an open file.

    Uses are frequent, and in this queue a use is cheaper than in a list that is ordered by last use.
    """

    __slots__ = ("_holders", "_limit", "files", "lookups", "on_index_rebuilt")

    def __init__(self, files: Files, limit: int = OPEN_FILES_MAX, lookups: LookupReads | None = None) -> None:
        self.files = files
        self.lookups = lookups or LookupReads()
        self.on_index_rebuilt: Callable[[str], None] = _unheard
        """Called with the path of an index file that was missing or damaged and has been rebuilt."""
        self._limit = limit
        self._holders: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens a file.

        If the process has no descriptors left, closes all files that logs hold for later use, and retries.
        """
        try:
            return self.files.open(path, create=create)
        except OSError as error:
            if not is_out_of_files(error) or not self._holders:
                raise
        while self._holders:
            self._holders.popitem()[0].release()
        return self.files.open(path, create=create)

    def opened(self, holder: Holder) -> None:
        """Registers that the holder has just opened its file, and closes another file if there are too many.

        A file that was used only once closes first.
        """
        self._holders.pop(holder, None)  # an index that has grown is mapped again, and must not be the one to close
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
    """A file that opens on its first use."""

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

    def for_lookup(self) -> CountedFile:
        """Returns the file for a search for a batch, with its reads counted."""
        return self._open_files.lookups.begin(self.get())

    def release(self) -> None:
        self._file = None

    def close(self) -> None:
        self._open_files.close(self)
