"""Makes a table equal to an archive: the files of the table become the files that the archive's manifest names.

One transaction of the table adds and removes files, so a reader sees the archive before or after a commit, never in
between. Comparing sets makes it idempotent: after a kill, or a second time, there is nothing left to do.

The files get second names in the directory of the table as hard links, or are copied where no link is possible. So the
archive and the table can each remove a file without harm to the other.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_layout import DATA
from tailrace.pipeline.archive.manifest.archive_manifest import Manifest
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.runtime.embedded.plain_files import link_file

NAME = "archive table"
_TRIES = 5
"""How often the manifest is read again if the archive or the table changes meanwhile."""


class TableFile(Struct, frozen=True):
    """A file of the archive, as a table needs to know it."""

    path: str
    """Its path below the archive."""
    name: str
    """Its path below the files of the table."""
    topic: str
    partition: int
    date: str
    first: int
    last: int
    records: int
    bytes: int


class TablePlan(Struct, frozen=True):
    """What one transaction changes."""

    add: tuple[TableFile, ...]
    remove: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.add and not self.remove


class ArchiveTable(Protocol):
    """A table of an archive."""

    @property
    def place(self) -> str:
        """Where it is, for people."""

    @property
    def files_directory(self) -> str:
        """The local directory below which its files are."""

    def load(self, archive: str) -> tuple[int, set[str]]:
        """Reads up to which commit of the archive it goes, and the names of its files.

        A table that does not exist has none. Raises JobError if it is a table of something else.
        """

    def commit(self, archive: str, seq: int, plan: TablePlan, schema: pa.Schema) -> bool:
        """Carries out the plan in one transaction. Returns False if the table has changed since it was loaded.

        `schema` has the columns of the files that are added. Raises JobError.
        """


class TableResult(JobResult, frozen=True):
    """What has changed in a table."""

    added: int = 0
    removed: int = 0


def update_table(folder: ArchiveFolder, table: ArchiveTable, topics: Sequence[str] = ()) -> TableResult:
    """Makes the table equal to the archive, or to these topics of it. Raises JobError and ManifestError."""
    check_apart(folder.directory, table.files_directory)
    archive, reason = folder.archive.id, ""
    for _ in range(_TRIES):
        loaded = folder.load()
        seq, present = table.load(archive)
        if seq > loaded.seq:
            reason = "the table is newer than the archive"
            continue
        wanted = files_of(loaded.manifest, topics)
        plan = plan_of(wanted, present)
        if plan.is_empty:
            return _result(table, loaded.seq, wanted, plan)
        try:
            schema = _prepare(folder.directory, table.files_directory, plan)
        except FileNotFoundError as error:
            reason = f"{error.filename} is missing"  # a compaction may have replaced it
            continue
        if table.commit(archive, loaded.seq, plan, schema):
            return _result(table, loaded.seq, wanted, plan)
        reason = f"another process changes {table.place}"
    raise JobError(f"{table.place} is as it was, because {reason}: run again")


def files_of(manifest: Manifest, topics: Sequence[str]) -> dict[str, TableFile]:
    """Returns the files that the table is to have, by their names there. Raises JobError for an unknown topic."""
    known = {each.topic for each in manifest.partitions}
    for topic in topics:
        if topic not in known:
            raise WrongUsageError(f"the archive has no topic {topic}: it has {', '.join(sorted(known)) or 'none'}")
    found = {}
    for chunk in manifest.chunks:
        if topics and chunk.topic not in topics:
            continue
        for file in chunk.files:
            name = file.path.removeprefix(f"{DATA}/")
            found[name] = TableFile(
                path=file.path,
                name=name,
                topic=chunk.topic,
                partition=chunk.partition,
                date=file.date,
                first=file.first,
                last=file.last,
                records=file.records,
                bytes=file.bytes,
            )
    return found


def plan_of(wanted: Mapping[str, TableFile], present: Iterable[str]) -> TablePlan:
    """Returns what makes the present files the wanted ones."""
    have = set(present)
    return TablePlan(
        tuple(file for name, file in sorted(wanted.items()) if name not in have), tuple(sorted(have - wanted.keys()))
    )


def check_apart(archive: str, table: str) -> None:
    """Raises WrongUsageError if the files of the table would be in the archive, where they would not count."""
    if f"{os.path.realpath(table)}/".startswith(f"{os.path.realpath(archive)}/"):
        raise WrongUsageError(f"the table needs a directory of its own, and {table} is in the archive {archive}")


def _prepare(archive: str, table: str, plan: TablePlan) -> pa.Schema:
    """Gives the files their names in the table, and returns the columns that they have together."""
    schemas: dict[pa.Schema, None] = {}
    for file in plan.add:
        source = f"{archive}/{file.path}"
        try:
            link_file(source, f"{table}/{file.name}")
            schemas[pq.read_schema(source).remove_metadata()] = None
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise JobError(f"{source} cannot become a part of a table: {error}") from error
    try:
        return pa.unify_schemas(list(schemas))
    except pa.ArrowException as error:
        raise JobError(
            f"the files have columns of different types, and a table has one type for each: {error}; archive topics "
            "with different schemas into different archives"
        ) from error


def _result(table: ArchiveTable, seq: int, wanted: Mapping[str, TableFile], plan: TablePlan) -> TableResult:
    what = f"{len(plan.add)} files added, {len(plan.remove)} removed" if not plan.is_empty else "nothing to change"
    return TableResult(
        job=NAME,
        is_ok=True,
        verdict=f"{table.place} is the archive at commit {seq}: {what}",
        facts={
            "table": table.place,
            "commit of the archive": seq,
            "records": sum(each.records for each in wanted.values()),
            "files": len(wanted),
            "files added": len(plan.add),
            "files removed": len(plan.remove),
        },
        added=len(plan.add),
        removed=len(plan.remove),
    )
