"""What the replicas of a data directory have promised, in one file for all: the largest epoch that each has answered
to, and which of them may have lost what they acknowledged.

A promise is on the disk before anybody hears of it, and thousands are made at once when a leader is lost: so they are
appended to one file, and those that come while it is synced share the next sync. What is torn was never heard of.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from uuid import UUID

import crc32c
import trio

from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.runtime.descriptors import done_once_files_can_be_opened, once_files_can_be_opened
from tailrace.runtime.files import File, Files

from .checkpoints import ReplicaKey
from .file_shortening import shorten
from .layout import promises_path
from .shared_writes import SharedWrites

PROMISES_MAGIC = b"TRPR\x00\x01"
_RECORD = struct.Struct("<B16siq")
_CHECKSUM = struct.Struct("<I")
PROMISE_BYTES = _RECORD.size + _CHECKSUM.size
_NOBODY = (UUID(int=0), 0)
_STALE_RECORDS_MAX = 10_000
"""With so many more records than replicas the file is worth being written anew."""


class Said(IntEnum):
    """What a record says."""

    PROMISED = 1
    SURE = 2
    """The replica is in doubt no more."""
    ALL_IN_DOUBT = 3
    """All that have promised something before this record."""
    IN_DOUBT = 4
    """This one."""
    DISK_FAILED = 5
    """The page cache may have lost what was written, though the machine went on."""


_SAID = frozenset(Said)
Fact = tuple[Said, ReplicaKey, int]


class Promises:
    def __init__(self, files: Files, data_directory: str) -> None:
        self._files = files
        self._directory = data_directory
        self._path = promises_path(data_directory)
        self._epochs: dict[ReplicaKey, Epoch] = {}
        self._in_doubt: set[ReplicaKey] = set()
        self.has_disk_failed = False
        """A process before this one could not bring everything to the disk: its store is not to be trusted."""
        self.is_incomplete = False
        """A promise, or a doubt, may be missing from what was found; nobody knows whose."""
        self._records = 0
        self._unwritten: list[Fact] = []
        self._writes = SharedWrites(self._write_unwritten)
        self._anew = SharedWrites(self._write_anew)
        self._file = self._load()

    # what is

    def epoch(self, key: ReplicaKey) -> Epoch:
        """The largest that the replica has promised; NO_EPOCH if it has never answered to any."""
        return self._epochs.get(key, NO_EPOCH)

    def is_in_doubt(self, key: ReplicaKey) -> bool:
        """Its storage may lack what it acknowledged, and it has not caught up since."""
        return key in self._in_doubt

    # what is to be kept

    async def settle(self) -> None:
        """Brings what was found to the disk: the process that wrote it may have ended before it was there, and has told
        nobody, but whoever finds it would. It is written anew, as a sync that failed once would not be tried again.

        And what was forgotten is not found any more."""
        if self._records:
            await self._anew.take_part()

    async def promise(self, key: ReplicaKey, epoch: Epoch, *, in_doubt: bool = False) -> None:
        """Durable when this returns. Raises OSError; after a failed sync nothing is promised any more.

        `in_doubt`: the store knows nothing of the replica, and may have known it before it lost its disk.
        """
        assert epoch >= self.epoch(key)
        promised = (Said.PROMISED, key, epoch)
        if in_doubt and key not in self._in_doubt:
            await self._keep((Said.IN_DOUBT, key, NO_EPOCH), promised)
        else:
            await self._keep(promised)

    async def doubt(self, key: ReplicaKey) -> None:
        """It is known of one that something has gone from its log."""
        if key in self._epochs and key not in self._in_doubt:
            await self._keep((Said.IN_DOUBT, key, NO_EPOCH))

    async def end_doubt(self, key: ReplicaKey) -> None:
        """The replica has caught up, and what it has is on the disk."""
        if key in self._in_doubt:
            await self._keep((Said.SURE, key, NO_EPOCH))

    async def doubt_all(self) -> None:
        """The store stopped in a way that may have taken the end of every log here."""
        await self._keep((Said.ALL_IN_DOUBT, _NOBODY, NO_EPOCH))

    async def note_failed_disk(self) -> None:
        """What was not synced may be gone, although the machine goes on."""
        note = (Said.DISK_FAILED, _NOBODY, NO_EPOCH)
        try:
            await self._keep(note)
        except OSError:
            self.has_disk_failed = True
            if self._writes.failure is not None:
                # The next process finds it in the page cache. When the machine has stopped there is doubt anyway.
                with suppress(OSError):
                    self._append([note])
            await self._anew.take_part()  # another file, for its own sync may be what failed

    async def note_what_is_missing(self) -> None:
        """So that a start which is interrupted, before this has had its consequences, does not find the file whole."""
        if self.is_incomplete:
            await self.note_failed_disk()

    async def trust_disk(self) -> None:
        """What was noted of a failure has had its consequences."""
        if self.has_disk_failed:
            self.has_disk_failed = False
            await self._anew.take_part()

    def forget(self, topic_id: UUID, partition: int | None = None) -> None:
        """The storage of the topic, or of that partition, is gone. The file forgets it with `settle`: at the next start
        a store that kept its promise would not be in doubt, though it has nothing."""
        for key in [key for key in self._epochs if key[0] == topic_id and partition in (None, key[1])]:
            del self._epochs[key]
            self._in_doubt.discard(key)

    # the file

    def _load(self) -> File:
        """What is torn was not synced when the machine stopped, or its bits have flipped, and then it was believed."""
        file = self._files.open(self._path, create=True)
        data = file.read_at(0, file.size())
        if not data.startswith(PROMISES_MAGIC):
            if not PROMISES_MAGIC.startswith(data[: len(PROMISES_MAGIC)].rstrip(b"\0")):
                # Never synced it would be torn, or zeros; to forget promises is worse than not to start.
                raise OSError(f"{self._path} holds something else than promises")
            if next(read_promises(data), None) is None:
                self.is_incomplete = self.has_disk_failed = not data
                file.truncate(0)  # and empty it stays until there is something to say: the next start is to see it, too
                return file
        for _, kind, key, epoch in read_promises(data):
            self._records += 1
            self._apply(kind, key, epoch)
        self.is_incomplete = damaged_position(data) is not None
        self.has_disk_failed = self.has_disk_failed or self.is_incomplete
        file.truncate(len(data) - (len(data) - len(PROMISES_MAGIC)) % PROMISE_BYTES)
        return file

    def _apply(self, kind: int, key: ReplicaKey, epoch: int) -> None:
        if kind == Said.PROMISED:
            self._epochs[key] = Epoch(epoch)
        elif kind == Said.SURE:
            self._in_doubt.discard(key)
        elif kind == Said.IN_DOUBT:
            self._in_doubt.add(key)
        elif kind == Said.DISK_FAILED:
            self.has_disk_failed = True
        elif kind == Said.ALL_IN_DOUBT:
            self._in_doubt |= self._epochs.keys()

    async def _keep(self, *facts: Fact) -> None:
        self._unwritten += facts
        await self._writes.take_part()

    async def _write_unwritten(self) -> None:
        size = self._file.size()
        unwritten, self._unwritten = self._unwritten, []
        try:
            self._append(unwritten)
        except OSError as error:
            # A full disk, say. Each of those who wait for the others tries again, unless what was torn stays there.
            self._writes.failure = f"{self._path}: {error}"
            self._file.truncate(size)
            self._writes.failure = None
            self._unwritten = unwritten + self._unwritten
            raise
        try:
            with trio.CancelScope(shield=True):
                await self._file.sync()
                if self._records == 0:
                    await once_files_can_be_opened(lambda: self._files.sync_directory(self._directory))
                self._records += len(unwritten)
                for fact in unwritten:
                    self._apply(*fact)
                if self._records > len(self._epochs) * 2 + _STALE_RECORDS_MAX:
                    records = self._all_records()
                    if await shorten(self._files, self._path, PROMISES_MAGIC + b"".join(records)):
                        await self._use_anew(len(records))
        except OSError as error:
            self._writes.failure = f"{self._path}: {error}"
            raise

    def _append(self, facts: Iterable[Fact]) -> None:
        data = b"".join(_record(*fact) for fact in facts)
        self._file.append(data if self._file.size() else PROMISES_MAGIC + data)

    async def _write_anew(self) -> None:
        async with self._writes.lock:
            records = self._all_records()
            data = PROMISES_MAGIC + b"".join(records)
            try:
                with trio.CancelScope(shield=True):
                    await once_files_can_be_opened(lambda: self._files.replace(self._path, data))
                    await self._use_anew(len(records))
            except OSError as error:
                # The new file may be in its place, and not be there any more after a power failure. Nothing is appended
                # to one of them then.
                failure, self._writes.failure = self._writes.failure, f"{self._path}: {error}"
                if self._files.read(self._path) != data:
                    self._writes.failure = failure
                raise

    def _all_records(self) -> list[bytes]:
        records = [_record(Said.PROMISED, key, epoch) for key, epoch in self._epochs.items()]
        records += [_record(Said.IN_DOUBT, key) for key in self._in_doubt]
        if self.has_disk_failed:
            records.append(_record(Said.DISK_FAILED, _NOBODY))
        return records

    async def _use_anew(self, records: int) -> None:
        self._file = await done_once_files_can_be_opened(lambda: self._files.open(self._path))
        self._records = records


def read_promises(data: bytes) -> Iterator[tuple[int, Said, ReplicaKey, int]]:
    """All that are whole, with their positions."""
    for position in range(len(PROMISES_MAGIC), len(data) - PROMISE_BYTES + 1, PROMISE_BYTES):
        record = data[position : position + _RECORD.size]
        (checksum,) = _CHECKSUM.unpack_from(data, position + _RECORD.size)
        said, topic_id, partition, epoch = _RECORD.unpack(record)
        if crc32c.crc32c(record) == checksum and said in _SAID:
            yield position, Said(said), (UUID(bytes=topic_id), partition), epoch


def damaged_position(data: bytes) -> int | None:
    """Of the first that is not whole; 0 if the beginning is none."""
    if not data.startswith(PROMISES_MAGIC):
        return 0
    expected = len(PROMISES_MAGIC)
    for position, *_ in read_promises(data):
        if position != expected:
            break
        expected += PROMISE_BYTES
    return expected if expected < len(data) else None


def _record(kind: int, key: ReplicaKey, epoch: int = NO_EPOCH) -> bytes:
    topic_id, partition = key
    record = _RECORD.pack(kind, topic_id.bytes, partition, epoch)
    return record + _CHECKSUM.pack(crc32c.crc32c(record))
