"""The directory of an archive: makes it, reads its manifest, and commits.

A commit takes effect when the head names it. A process that is killed before that leaves files that do not count.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_layout import ARCHIVE, MANIFEST, TOKEN_DIGITS, commit_name
from tailrace.pipeline.archive.manifest.archive_manifest import (
    Archive,
    ArchivedPartition,
    Chunk,
    Commit,
    Head,
    Manifest,
    ManifestError,
    ManifestStore,
    check_link,
    decode,
    encode,
    files_since,
    fold,
    head_of,
    next_commit,
)
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError
from tailrace.runtime.chance import Chance
from tailrace.runtime.embedded.plain_files import make_directories, read_file, remove, write_once

from .manifest_stores import FileManifestStore

StoreOf = Callable[[str, Archive], ManifestStore]
"""Returns the store of the head for a directory and its archive."""


class LoadedManifest(Struct, frozen=True):
    """The manifest as it was at one head."""

    head: Head | None
    manifest: Manifest

    @property
    def seq(self) -> int:
        return self.head.seq if self.head is not None else 0


def new_token(chance: Chance) -> str:
    """Returns the token of a new attempt."""
    return f"{chance.below(16**TOKEN_DIGITS):0{TOKEN_DIGITS}x}"


def create_archive(directory: str, archive: Archive) -> bool:
    """Makes the directory an archive. Returns False if it is one already. Raises JobError."""
    try:
        make_directories(f"{directory}/{MANIFEST}")
        return write_once(f"{directory}/{ARCHIVE}", encode(archive))
    except OSError as error:
        raise JobError(f"{directory} cannot be made an archive: {error.strerror}") from error


def archive_at(directory: str) -> Archive | None:
    """Reads which archive the directory is; None if it is none. Raises JobError and ManifestError."""
    if not directory:
        raise WrongUsageError("the directory of the archive is empty: name one, such as ./archive")
    path = f"{directory}/{ARCHIVE}"
    try:
        return decode(read_file(path), Archive, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JobError(f"{path} cannot be read: {error.strerror}") from error


class ArchiveFolder:
    """An archive that exists."""

    def __init__(self, directory: str, store_of: StoreOf | None = None) -> None:
        """Opens the archive in the directory. Raises JobError and ManifestError."""
        archive = archive_at(directory)
        if archive is None:
            raise WrongUsageError(
                f"{directory} is no archive: `tailrace pipeline archive run TOPIC --to {directory}` makes one"
            )
        self.directory = os.path.abspath(directory)
        self.archive = archive
        self.store = (store_of or store_at)(directory, archive)

    def load(self) -> LoadedManifest:
        """Reads head and commits. Raises JobError and ManifestError."""
        head = self.store.read()
        if head is not None and head.archive != self.archive.id:
            raise ManifestError(
                f"the head of {self.directory} belongs to archive {head.archive}, and {ARCHIVE} there names "
                f"{self.archive.id}: files of two archives are in one directory"
            )
        return LoadedManifest(head, fold(self._commits(head, lambda commit: commit.snapshot is not None), head))

    def files_since(self, since_ms: int) -> set[str]:
        """Returns the paths of the files that count, or have counted since a time. Raises JobError and ManifestError.

        Readers that began before a merge of chunks still need the files that counted then.
        """
        head = self.store.read()
        commits = self._commits(head, lambda commit: commit.snapshot is not None and commit.time_ms < since_ms)
        return files_since(commits, since_ms)

    def _commits(self, head: Head | None, is_first: Callable[[Commit], bool]) -> list[Commit]:
        """Returns the commits up to the head, the oldest first, from one on with which folding can begin.

        Commits before one with a snapshot may be missing.
        """
        commits: list[Commit] = []
        link = head.commit if head is not None else None
        while link is not None:
            path = self._manifest_path(link.name)
            try:
                content = read_file(path)
            except OSError as error:
                if isinstance(error, FileNotFoundError) and commits and commits[-1].snapshot is not None:
                    break
                raise JobError(f"{path} is a part of the manifest and cannot be read: {error.strerror}") from error
            check_link(content, link)
            commit = decode(content, Commit, path)
            commits.append(commit)
            link = None if is_first(commit) else commit.previous
        return commits[::-1]

    def commit(
        self,
        loaded: LoadedManifest,
        token: str,
        time_ms: int,
        *,
        partitions_added: Sequence[ArchivedPartition] = (),
        chunks_added: Sequence[Chunk] = (),
        chunks_removed: Sequence[str] = (),
    ) -> LoadedManifest | None:
        """Commits a change of the loaded manifest. Returns the new one, or None if another commit came first.

        `loaded` must not be used after that. Raises JobError, and then it is unknown whether the commit took effect.
        """
        commit = next_commit(
            self.archive,
            loaded.head,
            loaded.manifest,
            time_ms,
            partitions_added=partitions_added,
            chunks_added=chunks_added,
            chunks_removed=chunks_removed,
        )
        name, content = commit_name(commit.seq, token), encode(commit)
        path = self._manifest_path(name)
        try:
            is_new = write_once(path, content)
        except OSError as error:
            raise JobError(f"{path} cannot be written: {error.strerror}; the archive is as it was") from error
        assert is_new, "no two attempts have the same token"
        head = head_of(commit, name, content, loaded.manifest)
        if self.store.commit(loaded.seq, head):
            return LoadedManifest(head, loaded.manifest)
        with suppress(OSError):
            remove(path)
        return None

    def path(self, below: str) -> str:
        """Returns the path of a file below the archive."""
        return f"{self.directory}/{below}"

    def _manifest_path(self, name: str) -> str:
        return f"{self.directory}/{MANIFEST}/{name}"


def store_at(directory: str, archive: Archive) -> ManifestStore:
    """Returns the store that the archive names, beside the files or at a Streaming Controller. Raises JobError."""
    if archive.head == "files":
        return FileManifestStore(directory)
    from .sc_manifest_store import ScManifestStore  # only the driver has a client

    return ScManifestStore(archive, archive.sc)
