"""Tracks how far a log is on the disk, syncs it, and writes its manifest.

Everything here is awaited under one lock, since each step leaves a manifest that agrees with the files. A failed sync
is never retried: the kernel may have dropped what it could not write, so a second sync could succeed without it. After
a failure the log refuses everything.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import trio

from tailrace.runtime.descriptors import is_out_of_files, retry_when_out_of_files
from tailrace.runtime.files import File, Files
from tailrace.storage.directory.directory_syncs import DirectorySyncs
from tailrace.storage.directory.layout import directories_up_to_data
from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.manifest import Manifest, SegmentFacts
from tailrace.storage.manifest.manifest_file import ManifestFile
from tailrace.storage.segments.restamping import StampsNotSyncedError
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_list import Segments

_FLUSHED_LINE_BYTES = 2**20
"""The number of synced bytes after which the manifest notes how far the log is on the disk."""

_NOT_ENTERED = -1
"""Stands for a base offset if no directory entry is known to be synced."""


def is_disk_full(error: OSError) -> bool:
    """Returns whether the error says that the disk is full. After such a write, earlier data is as safe as before."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, StampsNotSyncedError)


class LogDisk:
    """The durable side of one log: its lock, its synced end, its manifest and its failure."""

    __slots__ = (
        "_directory",
        "_directory_number",
        "_directory_syncs",
        "_entered_base",
        "_files",
        "_manifest",
        "_segments",
        "_unnoted_bytes",
        "closed",
        "failure",
        "is_changed",
        "lock",
        "may_have_lost",
        "synced_end",
        "unsynced_bytes",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: Segments,
        manifest_file: ManifestFile,
        directory_syncs: DirectorySyncs,
    ) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._manifest = manifest_file
        self.lock = trio.Lock()
        self.failure: str | None = None
        """Why the log refuses everything; None while it works."""
        self.may_have_lost = False
        """Whether something that was appended may never reach the disk."""
        self.synced_end = 0
        """The offset up to which everything is on the disk."""
        self.unsynced_bytes = 0
        self._unnoted_bytes = 0
        self.is_changed = True
        """Whether the log has changed since it was closed cleanly."""
        self.closed: SegmentFacts | None = None
        """The open segment at the last clean close, as the manifest states it. None once that has been overridden."""
        self._directory_syncs = directory_syncs
        self._directory_number = directory_syncs.next_number()
        self._entered_base = _NOT_ENTERED
        """The base of the open segment, if its directory entry is synced. Its first batch creates its file."""

    # failures

    def fail(self, sentence: str, error: OSError) -> None:
        """Makes the log refuse everything from now on."""
        self.failure = f"{sentence}: {error}"
        self.may_have_lost = self.may_have_lost or not is_disk_full(error)

    def close(self) -> None:
        """Makes the log refuse everything because it was closed."""
        self.failure = self.failure or f"{self._directory}: the log was closed"

    def check(self) -> None:
        """Raises OSError if the log refuses everything."""
        if self.failure is not None:
            raise OSError(self.failure)

    def _fail_sync(self, error: OSError) -> None:
        self.fail(f"{self._directory}: sync failed", error)
        self.may_have_lost = True  # whatever the reason: the page cache eventually drops what it cannot write

    @contextmanager
    def _syncing(self) -> Iterator[None]:
        """Makes the log fail if the block raises OSError: a failed sync must not be retried."""
        try:
            yield
        except OSError as error:
            self._fail_sync(error)
            raise

    # syncing

    async def sync(self, as_noted: Callable[[SegmentFacts], SegmentFacts]) -> None:
        """Returns once everything that was appended before the call is on the disk.

        Raises OSError. If the process has too many open files, nothing was tried, and the caller may call again.
        """
        self.check()
        sealed, open_segment = self._segments.unsynced(), self._segments.open
        end, unsynced_bytes = open_segment.end, self.unsynced_bytes
        try:
            for segment in sealed:
                await segment.reader.log.get().sync()
            if not open_segment.is_empty:
                await open_segment.sync()
            if sealed or open_segment.base != self._entered_base:
                await self.sync_directories()
        except OSError as error:
            if not is_out_of_files(error):
                self._fail_sync(error)
            raise
        self.synced_end = max(self.synced_end, end)
        self.unsynced_bytes -= unsynced_bytes
        self._unnoted_bytes += unsynced_bytes
        if sealed or self._unnoted_bytes >= _FLUSHED_LINE_BYTES:
            for segment in sealed:
                segment.facts = as_noted(segment.facts)
            self._note_synced(sealed, end)

    def _note_synced(self, sealed: Sequence[SealedSegment], end: int) -> None:
        """Notes in the manifest what was synced.

        If the disk is full, the next sync does so. The records are synced anyway, and an opening log finds them by
        scanning.
        """
        lines = [manifest.sealed_line(segment.facts) for segment in sealed]
        try:
            self._manifest.append([*lines, manifest.flushed_line(end)])
        except OSError as error:
            if is_disk_full(error):
                return
            raise
        self._unnoted_bytes = 0
        for segment in sealed:
            segment.is_synced = True

    async def sync_directories(self) -> None:
        """Syncs the log's directory and those above it that need it, so that files can be found after a crash."""
        open_segment = self._segments.open
        entered_base = open_segment.base if not open_segment.is_empty else _NOT_ENTERED
        own, *above = directories_up_to_data(self._directory)
        await self._files.sync_directory(own)
        for directory in above:
            await self._directory_syncs.sync(directory, self._directory_number)
        self._entered_base = entered_base

    async def sync_own_directory(self) -> None:
        """Syncs the log's directory, after files were created, removed or renamed."""
        with self._syncing():
            await retry_when_out_of_files(lambda: self._files.sync_directory(self._directory))

    async def sync_file(self, file: File) -> None:
        """Syncs a file. What follows relies on it, so the log fails if the sync does."""
        with self._syncing():
            await file.sync()

    def forget_entry(self) -> None:
        """Forgets that directory entries are synced, after files were removed.

        A removed file that was never synced may come back torn after a crash, unless the next sync makes its removal
        durable.
        """
        self._entered_base = _NOT_ENTERED

    # the manifest

    @property
    def wants_new_manifest(self) -> bool:
        return self._manifest.wants_replacement

    def note(self, lines: Sequence[bytes]) -> File:
        """Appends lines to the manifest and returns its file, for callers that need to sync it."""
        return self._manifest.append(lines)

    async def sync_note(self, file: File) -> None:
        """Syncs a file of the log and the directories."""
        await self.sync_file(file)
        await self._sync_directories_once_open()

    async def _sync_directories_once_open(self) -> None:
        with self._syncing():
            await retry_when_out_of_files(self.sync_directories)

    async def rewrite_manifest(self, content: Manifest) -> None:
        """Replaces the manifest."""
        await self._manifest.replace(content)

    async def replace_manifest_if_room(self, content: Manifest) -> bool:
        """Replaces the manifest if the disk has room, and returns whether it did."""
        with self._syncing():
            return await self._manifest.replace_if_room(content)

    async def replace_manifest(self, content: Manifest) -> None:
        """Replaces the manifest before something is changed that it describes.

        The new one describes the log after the change, and no longer the last clean close. Nothing cancels it.
        """
        self.closed = None
        with trio.CancelScope(shield=True):  # half a change would leave a log that agrees with no manifest
            try:
                await retry_when_out_of_files(lambda: self._manifest.replace(content))
            except OSError as error:
                self.fail(f"{self._directory}: sync failed", error)
                raise
            await self._sync_directories_once_open()
