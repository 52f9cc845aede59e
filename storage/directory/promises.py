"""The promises of all replicas of a data directory: the largest epoch of each, and which replicas are in doubt.

A promise must be on the disk before anyone hears of it, and thousands are made at once when a leader is lost. So all of
them are appended to one file, and promises that arrive during a sync share the next sync. If a crash tears a promise,
no server has heard of it yet.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from uuid import UUID

import crc32c
import trio

from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.runtime.descriptors import retry_call_when_out_of_files, retry_when_out_of_files
from tailrace.runtime.files import File, Files

from .checkpoints import ReplicaKey
from .file_shortening import shorten
from .layout import promises_path
from .shared_writes import SharedWrites

PROMISES_MAGIC = b"TRPR\x00\x01"
_RECORD = struct.Struct("<B16siq")
_CHECKSUM = struct.Struct("<I")
PROMISE_BYTES = _RECORD.size + _CHECKSUM.size
_NO_REPLICA = (UUID(int=0), 0)
_STALE_RECORDS_MAX = 10_000
"""The file is rewritten if it has this many more records than it needs."""


class PromiseKind(IntEnum):
    """What a record of the file says."""

    PROMISED = 1
    SURE = 2
    """The replica is no longer in doubt."""
    ALL_IN_DOUBT = 3
    """All replicas with a promise before this record are in doubt."""
    IN_DOUBT = 4
    """This replica is in doubt."""
    DISK_FAILED = 5
    """The page cache may have lost written data although the machine did not stop."""


_KINDS = frozenset(PromiseKind)
Fact = tuple[PromiseKind, ReplicaKey, int]


class Promises:
    """The promises and doubts of one data directory, in memory and in one file."""

    def __init__(self, files: Files, data_directory: str) -> None:
        self._files = files
        self._directory = data_directory
        self._path = promises_path(data_directory)
        self._epochs: dict[ReplicaKey, Epoch] = {}
        self._in_doubt: set[ReplicaKey] = set()
        self.has_disk_failed = False
        """Whether an earlier process failed to bring everything to the disk, so that its store must not be trusted."""
        self.is_incomplete = False
        """Whether a promise or a doubt of an unknown replica may be missing from the file."""
        self._records = 0
        self._unwritten: list[Fact] = []
        self._writes = SharedWrites(self._write_unwritten)
        self._replacement = SharedWrites(self._replace_file)
        self._file = self._load()

    # state

    def epoch(self, key: ReplicaKey) -> Epoch:
        """Returns the largest epoch that the replica has promised; NO_EPOCH if it has never promised any."""
        return self._epochs.get(key, NO_EPOCH)

    def is_in_doubt(self, key: ReplicaKey) -> bool:
        """Returns whether the replica may lack data that it acknowledged and has not caught up since."""
        return key in self._in_doubt

    # changes

    async def settle(self) -> None:
        """Rewrites the file, so that everything that was found in it is on the disk.

        The process that wrote it may have ended before its sync, and then it told no one. But every reader of the file
        relies on it from now on. The file is replaced, not synced: a sync that failed once must not be retried. The new
        file omits forgotten promises.
        """
        if self._records:
            await self._replacement.ensure_written()

    async def promise(self, key: ReplicaKey, epoch: Epoch, *, in_doubt: bool = False) -> None:
        """Makes a durable promise. Raises OSError; after a failed sync nothing can be promised any more.

        `in_doubt`: this store knows nothing of the replica, and may have known it before it lost its disk.
        """
        assert epoch >= self.epoch(key)
        promised = (PromiseKind.PROMISED, key, epoch)
        if in_doubt and key not in self._in_doubt:
            await self._persist((PromiseKind.IN_DOUBT, key, NO_EPOCH), promised)
        else:
            await self._persist(promised)

    async def doubt(self, key: ReplicaKey) -> None:
        """Records that the replica's log has lost something."""
        if key in self._epochs and key not in self._in_doubt:
            await self._persist((PromiseKind.IN_DOUBT, key, NO_EPOCH))

    async def end_doubt(self, key: ReplicaKey) -> None:
        """Records that the replica has caught up, and that what it has is on the disk."""
        if key in self._in_doubt:
            await self._persist((PromiseKind.SURE, key, NO_EPOCH))

    async def doubt_all(self) -> None:
        """Records that the store stopped in a way that may have lost the end of every log in it."""
        await self._persist((PromiseKind.ALL_IN_DOUBT, _NO_REPLICA, NO_EPOCH))

    async def note_failed_disk(self) -> None:
        """Records that unsynced data may be lost although the machine did not stop."""
        note = (PromiseKind.DISK_FAILED, _NO_REPLICA, NO_EPOCH)
        try:
            await self._persist(note)
        except OSError:
            self.has_disk_failed = True
            if self._writes.failure is not None:
                # The next process finds it in the page cache. If the machine stops, its logs are in doubt anyway.
                with suppress(OSError):
                    self._append([note])
            await self._replacement.ensure_written()  # another file, since a sync of this one may be what failed

    async def note_what_is_missing(self) -> None:
        """Records that the file is incomplete, so that an interrupted start does not take it for complete the next
        time."""
        if self.is_incomplete:
            await self.note_failed_disk()

    async def trust_disk(self) -> None:
        """Clears the record of a failed disk, after its consequences have taken effect."""
        if self.has_disk_failed:
            self.has_disk_failed = False
            await self._replacement.ensure_written()

    def forget(self, topic_id: UUID, partition: int | None = None) -> None:
        """Forgets the removed storage of a topic, or of one of its partitions.

        `settle` removes the promises from the file. Otherwise, at the next start, a store that still had its promise
        would not be in doubt, although it has no data.
        """
        for key in [key for key in self._epochs if key[0] == topic_id and partition in (None, key[1])]:
            del self._epochs[key]
            self._in_doubt.discard(key)

    # the file

    def _load(self) -> File:
        """Reads the file.

        A torn record was not synced when the machine stopped, or its bits have flipped after it was relied on.
        """
        file = self._files.open(self._path, create=True)
        data = file.read_at(0, file.size())
        if not data.startswith(PROMISES_MAGIC):
            if not PROMISES_MAGIC.startswith(data[: len(PROMISES_MAGIC)].rstrip(b"\0")):
                # An unsynced file would be torn or zeros. Forgetting promises is worse than not starting.
                raise OSError(f"{self._path} is not a file of promises; move it away if it belongs to another program")
            if next(read_promises(data), None) is None:
                self.is_incomplete = self.has_disk_failed = not data
                file.truncate(0)  # stays empty until the first record, so that the next start notices, too
                return file
        for _, kind, key, epoch in read_promises(data):
            self._records += 1
            self._apply(kind, key, epoch)
        self.is_incomplete = damaged_position(data) is not None
        self.has_disk_failed = self.has_disk_failed or self.is_incomplete
        file.truncate(len(data) - (len(data) - len(PROMISES_MAGIC)) % PROMISE_BYTES)
        return file

    def _apply(self, kind: int, key: ReplicaKey, epoch: int) -> None:
        if kind == PromiseKind.PROMISED:
            self._epochs[key] = Epoch(epoch)
        elif kind == PromiseKind.SURE:
            self._in_doubt.discard(key)
        elif kind == PromiseKind.IN_DOUBT:
            self._in_doubt.add(key)
        elif kind == PromiseKind.DISK_FAILED:
            self.has_disk_failed = True
        elif kind == PromiseKind.ALL_IN_DOUBT:
            self._in_doubt |= self._epochs.keys()

    async def _persist(self, *facts: Fact) -> None:
        self._unwritten += facts
        await self._writes.ensure_written()

    async def _write_unwritten(self) -> None:
        size = self._file.size()
        unwritten, self._unwritten = self._unwritten, []
        try:
            self._append(unwritten)
        except OSError as error:
            # For example a full disk. Each waiting caller retries, unless the torn record cannot be truncated.
            self._writes.failure = f"{self._path}: {error}"
            self._file.truncate(size)
            self._writes.failure = None
            self._unwritten = unwritten + self._unwritten
            raise
        try:
            with trio.CancelScope(shield=True):
                await self._file.sync()
                if self._records == 0:
                    await retry_when_out_of_files(lambda: self._files.sync_directory(self._directory))
                self._records += len(unwritten)
                for fact in unwritten:
                    self._apply(*fact)
                if self._records > len(self._epochs) * 2 + _STALE_RECORDS_MAX:
                    records = self._all_records()
                    if await shorten(self._files, self._path, PROMISES_MAGIC + b"".join(records)):
                        await self._reopen(len(records))
        except OSError as error:
            self._writes.failure = f"{self._path}: {error}"
            raise

    def _append(self, facts: Iterable[Fact]) -> None:
        data = b"".join(_record(*fact) for fact in facts)
        self._file.append(data if self._file.size() else PROMISES_MAGIC + data)

    async def _replace_file(self) -> None:
        async with self._writes.lock:
            records = self._all_records()
            data = PROMISES_MAGIC + b"".join(records)
            try:
                with trio.CancelScope(shield=True):
                    await retry_when_out_of_files(lambda: self._files.replace(self._path, data))
                    await self._reopen(len(records))
            except OSError as error:
                # The new file may be in place now, but not after a power failure. Then nothing may be appended to
                # either.
                failure, self._writes.failure = self._writes.failure, f"{self._path}: {error}"
                if self._files.read(self._path) != data:
                    self._writes.failure = failure
                raise

    def _all_records(self) -> list[bytes]:
        records = [_record(PromiseKind.PROMISED, key, epoch) for key, epoch in self._epochs.items()]
        records += [_record(PromiseKind.IN_DOUBT, key) for key in self._in_doubt]
        if self.has_disk_failed:
            records.append(_record(PromiseKind.DISK_FAILED, _NO_REPLICA))
        return records

    async def _reopen(self, records: int) -> None:
        self._file = await retry_call_when_out_of_files(lambda: self._files.open(self._path))
        self._records = records


def read_promises(data: bytes) -> Iterator[tuple[int, PromiseKind, ReplicaKey, int]]:
    """Yields all undamaged records with their positions."""
    for position in range(len(PROMISES_MAGIC), len(data) - PROMISE_BYTES + 1, PROMISE_BYTES):
        record = data[position : position + _RECORD.size]
        (checksum,) = _CHECKSUM.unpack_from(data, position + _RECORD.size)
        kind, topic_id, partition, epoch = _RECORD.unpack(record)
        if crc32c.crc32c(record) == checksum and kind in _KINDS:
            yield position, PromiseKind(kind), (UUID(bytes=topic_id), partition), epoch


def damaged_position(data: bytes) -> int | None:
    """Returns the position of the first damaged record; 0 if the file does not begin with the magic; None if all are
    whole."""
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
