"""How far a log has reached the disk, and what its manifest says of it.

All here is awaited under one lock, since each step leaves a manifest that agrees with the files. A failed sync is never
tried again: the kernel may have dropped what it could not write, so a second one could succeed without it. The log
refuses everything then.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import trio

from tailrace.runtime.descriptors import are_used_up, once_files_can_be_opened
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
"""After so many synced bytes the manifest notes how far the disk is."""

_NOT_ENTERED = -1


def lacks_room(error: OSError) -> bool:
    """Whether it says that the disk is full. Of a write: what was written before is as safe as it was."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, StampsNotSyncedError)


class LogDisk:
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
        """Why nothing may be read or written any more."""
        self.may_have_lost = False
        """Something that the log took may not be on the disk, and never get there."""
        self.synced_end = 0
        """Everything below is on the disk."""
        self.unsynced_bytes = 0
        self._unnoted_bytes = 0
        self.is_changed = True
        """Since the log was closed cleanly."""
        self.closed: SegmentFacts | None = None
        """What the manifest says of the open segment as it was at the last clean close: true until that is changed."""
        self._directory_syncs = directory_syncs
        self._directory_number = directory_syncs.draw()
        self._entered_base = _NOT_ENTERED
        """Of the open segment, once its file has an entry in the synced directory: its first batch creates the file."""

    # what failed

    def fail(self, sentence: str, error: OSError) -> None:
        self.failure = f"{sentence}: {error}"
        self.may_have_lost = self.may_have_lost or not lacks_room(error)

    def close(self) -> None:
        self.failure = self.failure or f"{self._directory}: the log was closed"

    def check(self) -> None:
        if self.failure is not None:
            raise OSError(self.failure)

    def _fail_sync(self, error: OSError) -> None:
        self.fail(f"{self._directory}: sync failed", error)
        self.may_have_lost = True  # for whatever reason: what was not written the page cache drops one day

    @contextmanager
    def _syncing(self) -> Iterator[None]:
        """Nothing is tried again that fails in it."""
        try:
            yield
        except OSError as error:
            self._fail_sync(error)
            raise

    # records

    async def sync(self, as_noted: Callable[[SegmentFacts], SegmentFacts]) -> None:
        """Returns once everything that was appended before the call is on the disk. For want of an open file it is not
        tried at all: who calls may call again."""
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
            if not are_used_up(error):
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
        """On a full disk the next sync does: the records are there, and who opens the log finds out by himself."""
        lines = [manifest.sealed_line(segment.facts) for segment in sealed]
        try:
            self._manifest.append([*lines, manifest.flushed_line(end)])
        except OSError as error:
            if lacks_room(error):
                return
            raise
        self._unnoted_bytes = 0
        for segment in sealed:
            segment.is_synced = True

    async def sync_directories(self) -> None:
        """The log's own, and those above it that need it: who finds the file after a crash must find its directory."""
        open_segment = self._segments.open
        entered_base = open_segment.base if not open_segment.is_empty else _NOT_ENTERED
        own, *above = directories_up_to_data(self._directory)
        await self._files.sync_directory(own)
        for directory in above:
            await self._directory_syncs.sync(directory, self._directory_number)
        self._entered_base = entered_base

    async def sync_own_directory(self) -> None:
        """In which files of the log have come, gone, or changed their names."""
        with self._syncing():
            await once_files_can_be_opened(lambda: self._files.sync_directory(self._directory))

    async def sync_file(self, file: File) -> None:
        """What follows relies on what was written to it."""
        with self._syncing():
            await file.sync()

    def forget_entry(self) -> None:
        """Files have gone. One that was never synced may come back torn after a crash, unless the next sync makes its
        end durable."""
        self._entered_base = _NOT_ENTERED

    # the manifest

    @property
    def wants_new_manifest(self) -> bool:
        return self._manifest.wants_replacement

    def note(self, lines: Sequence[bytes]) -> File:
        """Returns the manifest, for whoever needs the lines on the disk now."""
        return self._manifest.append(lines)

    async def sync_note(self, file: File) -> None:
        await self.sync_file(file)
        await self._sync_directories_once_open()

    async def _sync_directories_once_open(self) -> None:
        with self._syncing():
            await once_files_can_be_opened(self.sync_directories)

    async def rewrite_manifest(self, content: Manifest) -> None:
        await self._manifest.replace(content)

    async def replace_manifest_if_room(self, content: Manifest) -> bool:
        with self._syncing():
            return await self._manifest.replace_if_room(content)

    async def replace_manifest(self, content: Manifest) -> None:
        """Before anything is changed of which it speaks: it says what will be true then, and not how the log was
        closed once."""
        self.closed = None
        with trio.CancelScope(shield=True):  # half a change would leave a log that agrees with nothing
            try:
                await once_files_can_be_opened(lambda: self._manifest.replace(content))
            except OSError as error:
                self.fail(f"{self._directory}: sync failed", error)
                raise
            await self._sync_directories_once_open()
