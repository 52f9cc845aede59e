"""Removes files that are in the directory of an archive and do not count.

Attempts that were killed leave them, and so do chunks that were merged. A run that is active has such files too, until
it commits, and readers that began before a merge still read the old files. So only files of some age are removed, and
those of merged chunks only if the merge has that age too.
"""

from collections.abc import Sequence

from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_layout import DATA, MANIFEST, TEMPORARY, parse_file_name
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.embedded.plain_files import FileAge, file_ages_below, remove

AGE_SECONDS = 24 * 3600
"""The default age. No run takes that long from its first file to its commit."""


class Cleaned(Struct, frozen=True):
    """The files that were removed, or would be."""

    paths: tuple[str, ...]
    bytes: int


def orphans(found: Sequence[FileAge], named: set[str], before_ms: int) -> list[FileAge]:
    """Returns the files that do not count and have not changed since then. Pure.

    Files that no archive has written are left alone.
    """
    return [
        each
        for each in found
        if each.modified_ms < before_ms
        and each.path not in named
        and (each.path.endswith(TEMPORARY) or parse_file_name(each.path.rpartition("/")[2]) is not None)
    ]


def clean(folder: ArchiveFolder, now_ms: int, age_seconds: float = AGE_SECONDS, *, dry_run: bool = False) -> Cleaned:
    """Removes files that do not count. Raises JobError and ManifestError.

    The files are listed before the manifest is read. So a file that is committed meanwhile counts.
    """
    found = [
        FileAge(f"{part}/{each.path}", each.size, each.modified_ms)
        for part in (DATA, MANIFEST)
        for each in file_ages_below(folder.path(part))
    ]
    before_ms = now_ms - int(age_seconds * 1000)
    named = {file.path for file in folder.load().manifest.files()} | folder.files_since(before_ms)
    chosen = orphans(found, named, before_ms)
    if not dry_run:
        for each in chosen:
            try:
                remove(folder.path(each.path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise JobError(f"{folder.path(each.path)} cannot be removed: {error.strerror}") from error
    return Cleaned(tuple(each.path for each in chosen), sum(each.size for each in chosen))
