"""Runs the archive: one round after the other, each in waves of tasks with a commit after each wave.

Positions come from the manifest, so there is no checkpoint that can be lost. A round ends where the logs ended when it
began. If another driver commits first, this one reads the manifest again, and plans again from the new positions.
"""

import select
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget, WrittenChunks, remove_files
from tailrace.pipeline.archive.manifest.archive_layout import ARCHIVE, DATA, WAVE_DIGITS, is_of_wave
from tailrace.pipeline.archive.manifest.archive_manifest import CHUNK_BYTES, Archive, Chunk, ManifestError
from tailrace.pipeline.archive.stores.archive_folder import (
    ArchiveFolder,
    LoadedManifest,
    StoreOf,
    archive_at,
    create_archive,
    new_token,
    store_at,
)
from tailrace.pipeline.jobs.job_errors import JobError, SessionEndedError, WrongUsageError
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.pipeline.jobs.spark_session import check_classic, cores_of
from tailrace.pipeline.jobs.task_running import run_tasks
from tailrace.pipeline.schemas.ddl_schemas import schema_of_ddl
from tailrace.pipeline.schemas.value_schemas import ValueSchema, read_value_schema, required_packages
from tailrace.runtime.chance import Chance, RandomChance
from tailrace.runtime.embedded.plain_files import PlainFile, files_below, remove
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .archive_planning import (
    EARLIEST,
    LogExtent,
    PlanError,
    When,
    check_positions,
    lags,
    new_partitions,
    next_wave,
    tasks_total,
)
from .archive_sources import ArchiveSource, BrokerSource, SegmentSource
from .chunk_reading import ArchiveTask, archive_range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.pipeline.jobs.job_progress import Report

NAME = "archive run"
_TASKS_PER_CORE = 4
"""How many tasks a wave has for each core: more commits lose less when the driver is killed, and wait more often."""
_CORES_MAX = 256


class ArchiveResult(JobResult, frozen=True):
    """What a round has archived."""

    commits: int = 0
    records: int = 0

    def line(self) -> str:
        """Returns the result as one line of JSON."""
        return msgspec.json.encode(self).decode()


class ArchiveSettings(Struct, frozen=True, kw_only=True):
    """What is archived, and how."""

    topics: tuple[str, ...] | None
    """None for all topics that are not internal."""
    begin: When = EARLIEST
    """Where partitions begin that are new in the archive."""
    until_ms: int | None = None
    """The time of the first record that is not archived; None for all committed records."""
    chunk_bytes: int = CHUNK_BYTES
    value_schema: ValueSchema | None = None
    """The schema of values; None for raw values only."""


def archive(
    spark: "SparkSession",
    topics: Sequence[str] | None,
    to: str,
    *,
    brokers: Sequence[str] = (),
    segments: Sequence[str] = (),
    begin: When = EARLIEST,
    until_ms: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    schema: str | None = None,
    sc: Sequence[str] = (),
    store_of: StoreOf | None = None,
    report: "Report | None" = None,
) -> ArchiveResult:
    """Archives everything that these topics have now, and returns what it has added.

    `brokers` are addresses of Tailrace or Apache Kafka, or `segments` are data directories of SPUs. `to` is a directory
    that the driver and all executors share. `schema` names a file with the schema of values, such as `json:order.ddl`.
    `sc` are addresses of the Streaming Controller whose store gets the head of a new archive. Without any, the head
    lives beside the files.

    Raises JobError and ManifestError; then nothing has changed since the last commit.
    """
    check_classic(spark, NAME)
    settings = ArchiveSettings(
        topics=None if topics is None else tuple(topics),
        begin=begin,
        until_ms=until_ms,
        chunk_bytes=chunk_bytes,
        value_schema=None if schema is None else read_value_schema(schema, partial(schema_of_ddl, spark)),
    )
    folder = open_or_create(to, sc, store_of)
    return ArchiveRound(spark, folder, source_of(brokers, segments), settings).run(report)


def sleep(seconds: float) -> None:
    """Waits in a thread without Trio.

    PySpark raises KeyboardInterrupt from its own signal handler, which would break a loop of Trio.
    """
    select.select((), (), (), seconds)


def archive_every(
    spark: "SparkSession",
    folder: ArchiveFolder,
    source: ArchiveSource,
    settings: ArchiveSettings,
    seconds: float,
    *,
    wait: Callable[[float], None] = sleep,
    wall_clock: WallClock | None = None,
) -> Iterator[ArchiveResult | JobError]:
    """Yields the result, or the error, of one round after the other, which begin this many seconds apart.

    Raises ManifestError, and SessionEndedError if no later round can do better.
    """
    clock = wall_clock or SystemClock()
    while True:
        began_ms = clock.now_ms()
        try:
            yield ArchiveRound(spark, folder, source, settings, wall_clock=clock).run(None)
        except SessionEndedError:
            raise
        except ManifestError:
            raise  # the next round would find the same damage
        except (JobError, RefusedError, UnreachableError) as error:
            yield JobError(str(error))
        passed = (clock.now_ms() - began_ms) / 1000
        wait(min(seconds, max(0.0, seconds - passed)))


def open_or_create(directory: str, sc: Sequence[str] = (), store_of: StoreOf | None = None) -> ArchiveFolder:
    """Opens the archive, or makes one. Raises JobError and ManifestError.

    `sc` are addresses of the Streaming Controller whose store gets the head of a new archive. Without any, the head
    lives beside the files.
    """
    known = archive_at(directory)
    if known is None:
        archive = Archive(str(RandomChance().uuid()), "sc" if sc else "files", tuple(sc))
        store = (store_of or store_at)(directory, archive)
        store.read()  # an SC that is not there is told before the directory is an archive
        create_archive(directory, archive)
    elif sc and known.sc != tuple(sc):
        where = f"at the SC {', '.join(known.sc)}" if known.sc else "beside its files"
        raise WrongUsageError(f"the head of {directory} lives {where}, as {ARCHIVE} there says: remove --sc")
    return ArchiveFolder(directory, store_of)


def source_of(brokers: Sequence[str], segments: Sequence[str]) -> ArchiveSource:
    """Returns the source. Raises WrongUsageError if there is none, or two."""
    if bool(brokers) == bool(segments):
        raise WrongUsageError("an archive reads either from brokers or from segments: name one of them")
    return BrokerSource(brokers) if brokers else SegmentSource(segments)


class ArchiveRound:
    """One round."""

    def __init__(
        self,
        spark: "SparkSession",
        folder: ArchiveFolder,
        source: ArchiveSource,
        settings: ArchiveSettings,
        *,
        chance: Chance | None = None,
        wall_clock: WallClock | None = None,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._source = source
        self._settings = settings
        self._chance = chance or RandomChance()
        self._wall_clock = wall_clock or SystemClock()
        self._added: list[Chunk] = []
        self._commits = self._lost = self._source_bytes = self._unfit = 0
        self._tasks_done = self._tasks_total = 0

    def run(self, report: "Report | None" = None) -> ArchiveResult:
        """Archives up to where the logs end now. Raises JobError, ManifestError, RefusedError and UnreachableError."""
        began_ms = self._wall_clock.now_ms()
        settings = self._settings
        extents = self._source.look(settings.topics, settings.begin, settings.until_ms)
        loaded = self._join(self._folder.load(), extents)
        self._tasks_total = tasks_total(extents, loaded.manifest.positions(), settings.chunk_bytes)
        while True:
            try:
                check_positions(extents, loaded.manifest.positions())
            except PlanError as error:
                raise JobError(str(error)) from error
            loaded = self._archive_from(loaded, extents, report)
            if not lags(extents, loaded.manifest.positions()):
                break
        return self._result(extents, loaded, self._wall_clock.now_ms() - began_ms)

    def _join(self, loaded: LoadedManifest, extents: Sequence[LogExtent]) -> LoadedManifest:
        """Adds partitions that are new in the archive."""
        while new := new_partitions(extents, loaded.manifest.positions()):
            now_ms = self._wall_clock.now_ms()
            joined = self._folder.commit(loaded, new_token(self._chance), now_ms, partitions_added=new)
            if joined is not None:
                self._commits += 1
                return joined
            loaded = self._folder.load()
        return loaded

    def _archive_from(
        self, loaded: LoadedManifest, extents: Sequence[LogExtent], report: "Report | None"
    ) -> LoadedManifest:
        """Runs waves until nothing is left, or until another driver has committed. Returns the manifest then."""
        wave = f"{self._chance.below(16**WAVE_DIGITS):0{WAVE_DIGITS}x}"
        waiting = self._tasks(loaded, extents, wave)
        while tasks := next_wave(waiting, self._wave_tasks()):
            written = self._run_wave(tasks, wave, report)
            chunks = [chunk for each in written for chunk in each.chunks]
            now_ms = self._wall_clock.now_ms()
            committed = self._folder.commit(loaded, new_token(self._chance), now_ms, chunks_added=chunks)
            if committed is None:
                remove_files(self._folder.directory, chunks)
                self._lost += 1
                return self._folder.load()
            loaded = committed
            self._commits += 1
            self._added += chunks
            self._source_bytes += sum(each.source_bytes for each in written)
            self._unfit += sum(each.unfit for each in written)
            self._tasks_done += len(tasks)
        return loaded

    def _tasks(self, loaded: LoadedManifest, extents: Sequence[LogExtent], wave: str) -> list[Iterator[ArchiveTask]]:
        of_key = {each.key: each for each in extents}
        found = []
        for key, (position, end) in lags(extents, loaded.manifest.positions()).items():
            extent = of_key[key]
            target = ChunkTarget(
                self._folder.directory,
                extent.topic,
                extent.topic_id,
                extent.partition,
                self._settings.chunk_bytes,
                self._settings.value_schema,
            )
            found.append(self._source.tasks(extent, target, wave, position, end))
        return found

    def _run_wave(self, tasks: Sequence[ArchiveTask], wave: str, report: "Report | None") -> list[WrittenChunks]:
        def show(done: int, total: int) -> None:
            assert report is not None
            report(self._tasks_done + done, max(self._tasks_total, self._tasks_done + total))

        try:
            written = run_tasks(
                self._spark,
                tasks,
                archive_range,
                name=NAME,
                report=show if report is not None else None,
                requires=(*self._source.requires, *required_packages(self._settings.value_schema)),
            )
        except BaseException:
            self._remove_files_of(wave, tasks)
            raise
        self._check_files(written)
        return written

    def _remove_files_of(self, wave: str, tasks: Sequence[ArchiveTask]) -> None:
        """Removes what the tasks of a failed wave have written. What is left does not count, and `clean` removes it.

        The files are listed before the manifest is read. So a file that is committed meanwhile stays. Earlier waves of
        this round have the same digits, and readers may still need their files after others have merged them.
        """
        try:
            found = [
                f"{DATA}/{topic}/{below}"
                for topic in sorted({each.target.topic for each in tasks})
                for below in files_below(self._folder.path(f"{DATA}/{topic}"))
                if is_of_wave(below.rpartition("/")[2], wave)
            ]
            named = {each.path for each in self._folder.load().manifest.files()} if found else set()
            named |= {file.path for chunk in self._added for file in chunk.files}
            for path in found:
                if path not in named:
                    remove(self._folder.path(path))
        except (OSError, JobError, ManifestError):
            return

    def _check_files(self, written: Sequence[WrittenChunks]) -> None:
        """Raises JobError if the driver does not see what the executors have written."""
        for file in (file for each in written for chunk in each.chunks for file in chunk.files):
            path = self._folder.path(file.path)
            try:
                opened = PlainFile(path)
                size = opened.size()
                opened.close()
            except OSError:
                size = -1
            if size != file.bytes:
                raise JobError(
                    f"an executor has written {path}, and the driver does not see it: {self._folder.directory} must be "
                    "a directory that the driver and all executors share"
                )

    def _wave_tasks(self) -> int:
        return _TASKS_PER_CORE * max(1, min(_CORES_MAX, cores_of(self._spark)))

    def _result(self, extents: Sequence[LogExtent], loaded: LoadedManifest, took_ms: int) -> ArchiveResult:
        records = sum(each.records for each in self._added)
        files = [file for each in self._added for file in each.files]
        topics = sorted({each.topic for each in extents})
        what = f"{records} records" if records else "nothing new"
        return ArchiveResult(
            job=NAME,
            is_ok=True,
            verdict=f"{what} of {', '.join(topics) or 'no topic'}, and the archive is at commit {loaded.seq}",
            facts={
                "archive": self._folder.directory,
                "topics": len(topics),
                "partitions": len(extents),
                "records": records,
                **({} if self._settings.value_schema is None else {"values that do not fit the schema": self._unfit}),
                "offsets without a record": sum(each.end - each.start - each.records for each in self._added),
                "bytes read": self._source_bytes,
                "bytes written": sum(each.bytes for each in files),
                "files": len(files),
                "chunks": len(self._added),
                "commits": self._commits,
                "commits of others": self._lost,
                "seconds": took_ms / 1000,
            },
            commits=self._commits,
            records=records,
        )
