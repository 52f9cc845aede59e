"""Files in memory with a page cache that a crash may lose: the disk only has what was synced.

The model is stricter than most file systems. After a crash, each file has any prefix of the operations since its last
sync, the last write being torn at any byte. Each directory has any prefix of the creations, renames and removals since
its last sync. Pages may be written out of order, so that a write with later writes behind it may leave zeros. What a
failed sync did not write can still be read, and no later sync writes it.
"""

import errno
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal
from weakref import ref

import crc32c
import trio
from msgspec import Struct, field

from tailrace.runtime.files import Buffer, UnreadableError

Keep = Literal["all", "synced", "nothing"] | Random
"""What a crash keeps: everything (the process ended), what was synced (the machine stopped), in addition a random part
of the rest, or nothing at all (the disk was replaced by an empty one)."""


class Write(Struct, frozen=True):
    position: int
    data: bytes


class Truncate(Struct, frozen=True):
    size: int


class Flipped(Struct, frozen=True):
    byte: int
    """The current value of the byte."""
    is_covered: bool
    """Whether a checksum covers the byte, which every reader checks."""
    was: int | None = None
    """The original value, which returns when the process ends, if only that process knew it."""


class _Map(bytearray):
    """A file that a process has mapped; bits of the file that flip also flip here."""


class Node(Struct, eq=False):
    """A file or a directory, without its name."""

    is_directory: bool = False
    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    unsynced: list[Write | Truncate] = field(default_factory=list)
    has_dropped: bool = False
    """Whether a sync failed, so that some content stays only in the page cache until it is written again."""
    flipped: dict[int, Flipped] = field(default_factory=dict)
    """The flipped bytes, by position."""
    maps: list["ref[_Map]"] = field(default_factory=list)

    def wrong(self) -> list[Flipped]:
        """Returns the flipped bytes that were not written again."""
        return list(_still(self.flipped, self.content).values())


class Link(Struct, frozen=True):
    path: str
    node: Node


class Unlink(Struct, frozen=True):
    path: str


class Rename(Struct, frozen=True):
    path: str
    to: str


Entry = Link | Unlink | Rename


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0]


def _apply_write(content: bytearray, operation: Write | Truncate) -> None:
    if isinstance(operation, Truncate):
        content.extend(bytes(max(0, operation.size - len(content))))
        del content[operation.size :]
    else:
        content.extend(bytes(max(0, operation.position - len(content))))
        content[operation.position : operation.position + len(operation.data)] = operation.data


def _still(flipped: dict[int, Flipped], content: bytes | bytearray) -> dict[int, Flipped]:
    return {at: each for at, each in flipped.items() if at < len(content) and content[at] == each.byte}


def _apply_entry(names: dict[str, Node], operation: Entry) -> None:
    if isinstance(operation, Link):
        names[operation.path] = operation.node
    elif isinstance(operation, Unlink):
        names.pop(operation.path, None)
    elif operation.path in names:
        names[operation.to] = names.pop(operation.path)
        for path in [path for path in names if path.startswith(operation.path + "/")]:
            names[operation.to + path[len(operation.path) :]] = names.pop(path)


class SimulatedFile:
    def __init__(self, files: "SimulatedFiles", path: str, node: Node) -> None:
        self._files = files
        self._path = path
        self.node = node

    @property
    def path(self) -> str:
        return self._path

    @property
    def descriptor(self) -> int | None:
        return None

    def size(self) -> int:
        return len(self.node.content)

    def append(self, data: Buffer) -> None:
        self.write_at(len(self.node.content), data)

    def write_at(self, position: int, data: Buffer) -> None:
        room = self._files.room_for(position + len(data) - len(self.node.content))
        fitting = len(data) - max(0, position + len(data) - len(self.node.content) - room)
        self._files.do(self.node, Write(position, bytes(data)[:fitting]))
        if fitting < len(data):
            raise OSError(errno.ENOSPC, "no space left on the simulated device", self._path)

    def read_at(self, position: int, count: int) -> bytes:
        self._files.check_reading(self._path)
        return bytes(self.node.content[position : position + count])

    def map(self) -> memoryview:
        self._files.check_reading(self._path)
        mapped = _Map(self.node.content)
        self.node.maps = [each for each in self.node.maps if each() is not None]
        self.node.maps.append(ref(mapped))
        return memoryview(mapped).toreadonly()

    def truncate(self, size: int) -> None:
        self._files.do(self.node, Truncate(size))

    async def sync(self) -> None:
        await self._files.sync(self.node)

    def sync_now(self) -> None:
        self._files.sync_now(self.node)

    def close(self) -> None:
        pass


class SimulatedFiles:
    def __init__(self) -> None:
        root = Node(is_directory=True)
        self._names: dict[str, Node] = {"": root}
        self._synced_names: dict[str, Node] = {"": root}
        self._unsynced_entries: dict[str, list[Entry]] = {}
        self._locked: set[str] = set()
        self.on_operation: Callable[[], None] = lambda: None
        """Called after everything that changes what a crash would leave."""
        self.room_bytes: int | None = None
        """How many more bytes the disk accepts, or None for any number."""
        self.syncs_fail = False
        self.reads_fail = False
        self.opens_left: int | None = None
        """How many more files this process can open, or None for any number."""
        self.removal_seconds = 0.0
        """How long the file system takes to free the blocks of a large file."""
        self.sync_seconds: Callable[[], float] = lambda: 0.0
        """Returns how long the disk takes for the next sync."""
        self.boots = 1
        """How often the machine has started."""

    # the seam

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self._check_open_files(path)
        return self._open(path, create=create)

    def _open(self, path: str, *, create: bool = False) -> SimulatedFile:
        node = self._names.get(path)
        if node is None:
            if not create or _parent(path) not in self._names:
                raise FileNotFoundError(errno.ENOENT, "no such simulated file", path)
            node = Node()
            self._enter(_parent(path), Link(path, node))
        assert not node.is_directory
        return SimulatedFile(self, path, node)

    def read(self, path: str) -> bytes:
        self._check_open_files(path)
        self.check_reading(path)
        return self.content(path)

    def exists(self, path: str) -> bool:
        return path in self._names

    def size(self, path: str) -> int:
        return self._open(path).size()

    def list(self, directory: str) -> list[str]:
        self._check_open_files(directory)
        if self.reads_fail:
            raise OSError(errno.EIO, "the simulated disk cannot read the directory", directory)
        return [*self.names(directory)]

    def names(self, directory: str) -> Sequence[str]:
        """Returns the names in a directory, for checks, whatever fails."""
        prefix = directory + "/"
        return sorted(
            path[len(prefix) :]
            for path in self._names
            if path.startswith(prefix) and "/" not in path[len(prefix) :] and path
        )

    def make_directories(self, path: str) -> bool:
        if path in self._names:
            return False
        self.make_directories(_parent(path))
        self._enter(_parent(path), Link(path, Node(is_directory=True)))
        return True

    def remove(self, path: str) -> None:
        if path in self._names:
            if self.room_bytes is not None:
                self.room_bytes += len(self._names[path].content)
            self._enter(_parent(path), Unlink(path))

    def remove_empty_directory(self, path: str) -> None:
        if path in self._names and self._names[path].is_directory and not self.names(path):
            self._enter(_parent(path), Unlink(path))

    async def discard(self, path: str) -> None:
        await self._take_long_to_remove()
        self.remove(path)

    async def discard_tree(self, directory: str) -> None:
        """Deletes a tree in any order that keeps directories until they are empty, as a process may end meanwhile."""
        await self._take_long_to_remove()
        below = [path for path in self._names if path == directory or path.startswith(directory + "/")]
        for path in sorted(below, key=lambda path: (-path.count("/"), crc32c.crc32c(path.encode()))):
            self.remove(path)

    def rename(self, path: str, to: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such simulated file", path)
        self._enter(_parent(to), Rename(path, to))

    async def replace(self, path: str, data: bytes) -> None:
        self.remove(path + ".new")
        new = self.open(path + ".new", create=True)
        try:
            new.append(data)
            await new.sync()
        except OSError:
            self.remove(path + ".new")
            raise
        self.rename(path + ".new", path)
        await self.sync_directory(_parent(path))

    def write_private(self, path: str, data: bytes) -> None:
        if path in self._names:
            raise FileExistsError(errno.EEXIST, "there is a simulated file", path)
        file = self.open(path, create=True)
        file.append(data)
        file.sync_now()

    async def sync_directory(self, directory: str) -> None:
        directory = directory.rstrip("/")
        self._check_open_files(directory)
        if directory not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such simulated directory", directory)
        entries = list(self._unsynced_entries.get(directory, ()))
        await self._reach_disk()
        for entry in entries:
            _apply_entry(self._synced_names, entry)
        self._unsynced_entries.get(directory, [])[: len(entries)] = []
        self.on_operation()

    def lock(self, path: str) -> "SimulatedLock | None":
        if path in self._locked:
            return None
        self._locked.add(path)
        return SimulatedLock(self._locked, path)

    def free_bytes(self, directory: str) -> tuple[int, int]:
        return 2**40, 2**40 if self.room_bytes is None else self.room_bytes

    def descriptors_max(self) -> None:
        return None

    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    def content(self, path: str) -> bytes:
        """Returns the content of a file, for checks, whatever fails."""
        return bytes(self._open(path).node.content)

    def synced_content(self, path: str) -> bytes:
        """Returns what the disk surely has of the file, which is nothing without its directory entry."""
        node = self._synced_names.get(path)
        return b"" if node is None else node.synced

    # flipped bits

    def paths(self) -> Sequence[str]:
        """Returns the paths of all files."""
        return [path for path, node in self._names.items() if not node.is_directory]

    def is_at_rest(self, path: str) -> bool:
        """Whether the disk has the whole file, and keeps it after a power failure."""
        node = self._names[path]
        return not node.unsynced and not node.has_dropped and self._synced_names.get(path) is node

    def end_at_rest(self, path: str) -> int:
        """Returns the offset up to which the disk has the file, if everything else is appended after it."""
        node = self._names[path]
        end = 0 if node.has_dropped else len(node.synced)
        appends_alone = all(isinstance(each, Write) and each.position >= end for each in node.unsynced)
        return end if appends_alone and self._synced_names.get(path) is node else 0

    def flip(self, path: str, position: int, bit: int, *, is_covered: bool, is_noted: bool = True) -> None:
        """Flips a bit at rest; `is_noted` means that something on the disk proves what it was."""
        assert position < self.end_at_rest(path)
        node = self._names[path]
        was = None if is_noted else node.content[position]
        node.content[position] ^= 1 << bit
        synced = bytearray(node.synced)
        synced[position] = node.content[position]
        node.synced = bytes(synced)
        node.flipped[position] = Flipped(node.content[position], is_covered, was)
        for each in node.maps:
            mapped = each()
            if mapped is not None and position < len(mapped):
                mapped[position] ^= 1 << bit

    def flip_back(self) -> None:
        """Restores bytes that only a process knew that has ended."""
        for node in self._names.values():
            synced = bytearray(node.synced)
            for content in (node.content, synced):
                for position, flipped in _still(node.flipped, content).items():
                    if flipped.was is not None:
                        content[position] = flipped.was
            node.synced = bytes(synced)
            node.flipped = {position: each for position, each in node.flipped.items() if each.was is None}

    def flipped(self) -> dict[str, Sequence[Flipped]]:
        """Returns the flipped bytes that were not written again, by path."""
        return {path: wrong for path, node in self._names.items() if node.flipped and (wrong := node.wrong())}

    # internals

    def do(self, node: Node, operation: Write | Truncate) -> None:
        before = len(node.content)
        _apply_write(node.content, operation)
        node.unsynced.append(operation)
        if self.room_bytes is not None:
            self.room_bytes -= len(node.content) - before
        self.on_operation()

    def _check_open_files(self, path: str) -> None:
        if self.opens_left == 0:
            raise OSError(errno.EMFILE, "no more simulated files can be open", path)
        if self.opens_left is not None:
            self.opens_left -= 1

    async def close_others_after(self, seconds: float) -> None:
        """Closes other files after a while, so that files can be opened again."""
        await trio.sleep(seconds)
        self.opens_left = None

    def check_reading(self, path: str) -> None:
        if self.reads_fail:
            raise UnreadableError(path)

    def room_for(self, count: int) -> int:
        return count if self.room_bytes is None else min(count, self.room_bytes)

    async def sync(self, node: Node) -> None:
        content, count = bytes(node.content), len(node.unsynced)
        try:
            await self._reach_disk()
        except OSError:
            self._drop(node, count)
            raise
        if count:
            self._on_synced(node, content, count)
        node.unsynced[:count] = []
        self.on_operation()

    def sync_now(self, node: Node) -> None:
        try:
            self._check_disk()
        except OSError:
            self._drop(node, len(node.unsynced))
            raise
        self._on_synced(node, bytes(node.content), len(node.unsynced))
        node.unsynced.clear()
        self.on_operation()

    def _drop(self, node: Node, count: int) -> None:
        """Counts the content that a sync did not write as written from now on."""
        sizes = [operation for operation in node.unsynced[:count] if isinstance(operation, Truncate)]
        node.has_dropped = node.has_dropped or len(sizes) < count
        node.unsynced[:count] = sizes

    def _on_synced(self, node: Node, content: bytes, count: int) -> None:
        if node.has_dropped:
            reached = bytearray(node.synced)
            for operation in node.unsynced[:count]:
                _apply_write(reached, operation)
            node.has_dropped = reached != content
            content = bytes(reached)
        node.synced = content
        node.flipped = _still(node.flipped, node.content)  # some bytes may have flipped during the sync

    async def _take_long_to_remove(self) -> None:
        if self.removal_seconds:
            await trio.sleep(self.removal_seconds)

    async def _reach_disk(self) -> None:
        seconds = self.sync_seconds()
        if seconds:
            await trio.sleep(seconds)
        else:
            await trio.lowlevel.checkpoint()
        self._check_disk()

    def _check_disk(self) -> None:
        if self.syncs_fail:
            raise OSError(errno.EIO, "the simulated disk is broken")

    def _enter(self, directory: str, entry: Entry) -> None:
        _apply_entry(self._names, entry)
        self._unsynced_entries.setdefault(directory, []).append(entry)
        self.on_operation()

    # crashes

    def crash(self, keep: Keep) -> "SimulatedFiles":
        """Returns the files that a machine may find when it starts after a crash now; this object stays unchanged."""
        after = SimulatedFiles()
        after.boots = self.boots if keep == "all" else self.boots + 1
        if keep == "nothing":
            return after
        names = dict(self._synced_names)
        for entries in self._unsynced_entries.values():
            for entry in entries[: _kept(len(entries), keep)]:
                _apply_entry(names, entry)
        copies: dict[int, Node] = {}
        for path in sorted(names):
            if path and not _reachable(path, names):
                continue
            node = copies.setdefault(id(names[path]), _after_crash(names[path], keep))
            after._names[path] = after._synced_names[path] = node
        return after

    def after_kill(self) -> "SimulatedFiles":
        """Returns the files as the next process finds them on the same machine; unsynced content may still be lost."""
        after = SimulatedFiles()
        copies: dict[int, Node] = {}

        def copied(node: Node) -> Node:
            if id(node) not in copies:
                copy = Node(
                    node.is_directory,
                    bytearray(node.content),
                    node.synced,
                    list(node.unsynced),
                    node.has_dropped,
                    dict(node.flipped),
                )
                copies[id(node)] = copy
            return copies[id(node)]

        def copied_entry(entry: Entry) -> Entry:
            return Link(entry.path, copied(entry.node)) if isinstance(entry, Link) else entry

        after._names = {path: copied(node) for path, node in self._names.items()}
        after._synced_names = {path: copied(node) for path, node in self._synced_names.items()}
        after._unsynced_entries = {
            directory: [copied_entry(entry) for entry in entries]
            for directory, entries in self._unsynced_entries.items()
        }
        after.room_bytes = self.room_bytes
        after.boots = self.boots
        return after


def _reachable(path: str, names: dict[str, Node]) -> bool:
    while path:
        path = _parent(path)
        if path not in names:
            return False
    return True


def _kept(count: int, keep: Keep) -> int:
    if isinstance(keep, Random):
        return keep.randint(0, count)
    return count if keep == "all" else 0


def _after_crash(node: Node, keep: Keep) -> Node:
    content = bytearray(node.content if keep == "all" else node.synced)
    kept = [] if keep == "all" else node.unsynced[: _kept(len(node.unsynced), keep)]
    for number, operation in enumerate(kept):
        if isinstance(keep, Random) and isinstance(operation, Write):
            if number == len(kept) - 1:
                operation = Write(operation.position, operation.data[: keep.randint(0, len(operation.data))])
            elif keep.random() < 0.05:
                # If the file grew there are zeros at these positions, and otherwise the old content.
                grown = operation.data[max(0, len(content) - operation.position) :]
                operation = Write(operation.position + len(operation.data) - len(grown), bytes(len(grown)))
        _apply_write(content, operation)
    return Node(node.is_directory, content, bytes(content), flipped=_still(node.flipped, content))


class SimulatedLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)
