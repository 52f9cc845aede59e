"""The two index files of one segment: written in small pieces as it grows, memory-mapped for lookups.

They are never synced: a checksum tells whether what is on the disk can be trusted, and if not they are built again from
the log. Writes go through plain calls and not through the map, so that a full disk is an error and not a signal.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import crc32c

from tailrace.storage.directory.layout import Kind, file_name

from . import offset_index, time_index
from .index_entries import IndexEntries
from .offset_index import ENTRY_BYTES
from .open_files import OpenFiles
from .time_index import NO_TIMESTAMP

BUFFERED_ENTRIES_MAX = 32
"""A write for each entry would cost more than the entries save; this many belong to some 128 KiB of log at least."""
UNWRITTEN_ENTRIES_MAX = 1024
"""Of each segment for whose index there is no room. In a gigabyte one walks through no more than a megabyte then."""
_NOTHING = memoryview(b"")


class Place(NamedTuple):
    """Where a batch starts, as an entry says."""

    relative_offset: int
    position: int
    largest_before: int
    """Of the timestamps."""


BEGINNING = Place(0, 0, NO_TIMESTAMP)
"""Of the segment, for which there is no entry."""


def _place(entry: int, largest_before: int) -> Place:
    return Place(offset_index.relative_offset_of(entry), offset_index.position_of(entry), largest_before)


class SegmentIndex:
    __slots__ = (
        "_base",
        "_directory",
        "_is_verified",
        "_offsets",
        "_open_files",
        "_times",
        "_written",
        "checksum",
        "new",
        "time_checksum",
        "used",
    )

    def __init__(self, open_files: OpenFiles, directory: str, base: int, *, interval_bytes: int) -> None:
        self.checksum = 0
        self.time_checksum = 0
        self.used = False
        self._open_files = open_files
        self._directory = directory
        self._base = base
        self._written = 0
        """Entries in the files; those in `new` follow them."""
        self.new = IndexEntries(interval_bytes)
        """Knows, too, which batch gets the next entry: most get none, and it need not be told of them."""
        self._offsets: memoryview | None = None
        self._times = _NOTHING
        """Both mapped, or neither."""
        self._is_verified = True

    # Thousands of segments at rest need not remember these.

    @property
    def _offsets_path(self) -> str:
        return f"{self._directory}/{file_name(self._base, Kind.INDEX)}"

    @property
    def _times_path(self) -> str:
        return f"{self._directory}/{file_name(self._base, Kind.TIME_INDEX)}"

    def trust(self, entries: int, checksum: int, time_checksum: int, last_position: int) -> None:
        """What the files hold as a former process left them; believed once the checksums agree."""
        self._written = entries
        self.checksum = checksum
        self.time_checksum = time_checksum
        self.new.start_after(last_position)
        self._is_verified = entries == 0

    def __len__(self) -> int:
        return self._written + len(self.new)

    @property
    def last_position(self) -> int:
        return self.new.last_position

    # growing

    @property
    def wants_write(self) -> bool:
        return len(self.new.offsets) >= BUFFERED_ENTRIES_MAX

    def write(self) -> None:
        """Puts the entries so far into the files. Nothing is lost if that fails: it may be tried again."""
        new = self.new
        if not new.offsets:
            return
        files = self._open_files
        position = self._written * ENTRY_BYTES
        offsets, times = new.offsets.tobytes(), new.times.tobytes()
        files.open(self._offsets_path, create=True).write_at(position, offsets)
        files.open(self._times_path, create=True).write_at(position, times)
        self._written += len(new.offsets)
        self.checksum = crc32c.crc32c(offsets, self.checksum)
        self.time_checksum = crc32c.crc32c(times, self.time_checksum)
        self.new = IndexEntries(new.interval_bytes, new.last_position)

    def replace(self, entries: IndexEntries) -> None:
        """Starts the files over with these entries. Where there is no room for them, some stay here instead: one can
        read from a full disk, and whoever opens the segment next builds its index again."""
        self.discard()
        self.new = entries
        try:
            self.write()
        except OSError:
            entries.thin_out(UNWRITTEN_ENTRIES_MAX)

    def cut(self, position: int) -> None:
        """The batches from the position on are gone. Something was looked up before, so the index is sound."""
        new = self.new
        kept = offset_index.last_up_to_position(new.offsets, position - 1) + 1
        if kept or not self._written:
            new.keep(kept)
            return
        try:
            self._cut_files(position)
        except OSError:
            self.make_room()

    def _cut_files(self, position: int) -> None:
        self._map()
        assert self._offsets is not None
        kept = offset_index.last_up_to_position(self._offsets, position - 1) + 1
        self.new = IndexEntries(self.new.interval_bytes)
        self.new.start_after(offset_index.position_of(self._offsets[kept - 1]) if kept else 0)
        self._written = kept
        self.checksum = crc32c.crc32c(self._offsets[:kept])
        self.time_checksum = crc32c.crc32c(self._times[:kept])
        # Nobody may look at what is mapped and no longer there.
        self.close()
        for path in (self._offsets_path, self._times_path):
            self._open_files.open(path).truncate(kept * ENTRY_BYTES)

    def discard(self) -> None:
        """Empties the index: the files go, if there are any."""
        self._open_files.close(self)
        self._open_files.files.remove(self._offsets_path)
        self._open_files.files.remove(self._times_path)
        self.new = IndexEntries(self.new.interval_bytes)
        self._written = self.checksum = self.time_checksum = 0
        self._is_verified = True

    def make_room(self) -> None:
        """The files go, and are there again when something has been looked up."""
        self.discard()
        self._is_verified = False

    # looking up

    def ensure_sound(self, rebuild: Callable[[], IndexEntries]) -> bool:
        """Builds the index again if the files are missing, short, or not what was written; False if it had to."""
        if self._is_verified:
            return True
        try:
            sound = self._has(self._offsets_path, self.checksum) and self._has(self._times_path, self.time_checksum)
        except OSError:
            sound = False
        if not sound:
            self.rebuild(rebuild())
        self._is_verified = True
        return sound

    def rebuild(self, entries: IndexEntries) -> None:
        """It does not agree with the log, of which these are the entries."""
        self.replace(entries)
        self._open_files.on_index_rebuilt(self._offsets_path)

    def _has(self, path: str, checksum: int) -> bool:
        """Reads the file: were it looked at where it is mapped, a disk that cannot read it would end the process."""
        size = self._written * ENTRY_BYTES
        content = memoryview(self._open_files.files.read(path))[:size]
        return len(content) == size and crc32c.crc32c(content) == checksum

    def before_offset(self, relative_offset: int) -> Place:
        """A batch starts there that lies at or before the offset, and not far before."""
        return self._find(lambda offsets, _: offset_index.last_at_or_before(offsets, relative_offset))

    def up_to_position(self, position: int) -> Place:
        """A batch starts there that lies at or before the position, and not far before."""
        return self._find(lambda offsets, _: offset_index.last_up_to_position(offsets, position))

    def before_time(self, timestamp_ms: int) -> Place:
        """A batch starts there that only smaller timestamps precede; the first larger one is not far from it."""
        return self._find(lambda _, times: time_index.last_before(times, timestamp_ms))

    def _find(self, last: Callable[[Sequence[int], Sequence[int]], int]) -> Place:
        new = self.new
        index = last(new.offsets, new.times)
        if index >= 0:
            return _place(new.offsets[index], new.times[index])
        if not self._written:
            return BEGINNING
        self.used = True
        if self._offsets is None or len(self._offsets) < self._written:
            self._map()
        assert self._offsets is not None
        index = last(self._offsets, self._times)
        return _place(self._offsets[index], self._times[index]) if index >= 0 else BEGINNING

    def _map(self) -> None:
        times, offsets = self._mapped(self._times_path), self._mapped(self._offsets_path)
        self._times, self._offsets = times.cast("q"), offsets.cast("Q")
        self._open_files.opened(self)

    def _mapped(self, path: str) -> memoryview:
        content = self._open_files.open(path).map()
        whole_entries = min(self._written, len(content) // ENTRY_BYTES)
        return content[: whole_entries * ENTRY_BYTES]

    def close(self) -> None:
        self._open_files.close(self)

    def release(self) -> None:
        self._offsets = None
        self._times = _NOTHING
