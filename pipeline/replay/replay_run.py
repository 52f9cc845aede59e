"""`replay(spark, …)`: the driver of a replay, which plans, keeps the document, runs the tasks, and sums up."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from msgspec import Struct

from tailrace.client.client_network import client_network
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.archive.manifest.rollup_sums import rollup_text
from tailrace.pipeline.archive.stores.archive_folder import StoreOf
from tailrace.pipeline.jobs.broker_addresses import parse_brokers
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.pipeline.jobs.spark_session import check_classic, cores_of
from tailrace.pipeline.jobs.task_running import run_tasks
from tailrace.protocol.batches.compression import Compression
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.network import Address
from tailrace.runtime.wall_clock import SystemClock, utc_ms

from .map_parts import last_state, read_document, write_document
from .record_choice import RecordChoice, RecordChooser
from .record_masks import MaskError, RecordMasks, fingerprint, parse_mask
from .replay_document import (
    PartitionExtent,
    ReplayDocument,
    ReplaySettings,
    check_same,
    check_topic_id,
    decode_document,
    encode_document,
)
from .replay_line import ReplayError
from .replay_pace import ReplayPace
from .replay_sources import ArchiveSource, ReplaySource, SegmentRows, SegmentsSource, SourcePartition
from .replay_target import Target, TargetClient, check_retention, check_target
from .replay_task import REQUIRED, PartitionLook, PartitionOutcome, PartitionTask, ReplayTask, look, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.pipeline.jobs.job_progress import Report

T = TypeVar("T")

SPARK_SETTINGS = {"spark.speculation": "false"}
"""Settings of a session for a replay. A second attempt at the same time does no harm, and is of no use."""
_LEAD_MS = 1000
"""How long after the driver has chosen the origin of the pace the first record is due, so that tasks can start."""
_WATCH_MS = 1000

Bound = int | Mapping[int, int] | datetime | None
"""An offset for all partitions, offsets by partition, a time, or none."""


class ReplayRow(Struct, frozen=True):
    """What was done, or in a dry run would be done, with one partition."""

    partition: int
    first: int
    """The first offset of the source that belongs to the replay."""
    end: int
    """The offset after the last."""
    read: int
    """Records of the source that were read, by all attempts together."""
    sent: int
    """Records that the target has got, by all attempts together; in a dry run those that would be sent."""
    sent_now: int
    found: int
    """Records that an earlier attempt had sent without a note in the map."""
    to_first: int | None
    """The offset of the first record in the target."""
    to_end: int | None
    """The offset after the last record in the target."""
    rollup: str
    """The roll-up of what was sent, with the offsets of the source."""


class ReplayResult(JobResult, frozen=True, kw_only=True):
    """What a replay has done."""

    rows: tuple[ReplayRow, ...] = ()


class ReplayRequest(Struct, frozen=True):
    """What decides which records are sent, and how they are changed, as a person asks for it."""

    topic: str
    to_topic: str
    partitions: Sequence[int] = ()
    """The partitions to send; empty for all."""
    start: Bound = None
    until: Bound = None
    keys: Sequence[str] = ()
    key_regexes: Sequence[str] = ()
    masks: Sequence[str] = ()
    secret: bytes | None = None


def replay(
    spark: "SparkSession",
    *,
    from_segments: Sequence[str] | None = None,
    from_archive: str | None = None,
    topic_id: str | None = None,
    store_of: StoreOf | None = None,
    bootstrap: str | None = None,
    map_directory: str | None = None,
    speed: float | None = None,
    compression: str = "zstd",
    dry_run: bool = False,
    report: "Report | None" = None,
    **request: Any,
) -> ReplayResult:
    """Sends the records of `topic` to `to_topic`, with partition, order, time and headers, each record once.

    `from_segments` are data directories of SPUs, or `from_archive` is the directory of an archive, and `store_of` finds
    the archive's head if that is not beside the files. `map_directory` must be the same directory on all machines; it
    gets the map of offsets. A call with the same arguments goes on with a replay that has begun there. `request` has
    the fields of `ReplayRequest`: `start` and `until` are offsets or times, `keys` are patterns of shells, `masks` are
    texts such as `value.customer.email=hash`, and `secret` is the key of hashes. `speed` is how many times as fast as
    once the records come. A dry run sends nothing. Raises JobError with one sentence, and RefusedError and
    UnreachableError of brokers.
    """
    asked = ReplayRequest(**request)
    settings = settings_for(asked)
    check_classic(spark, "replay")
    if (from_segments is None) == (from_archive is None):
        raise ReplayError("a replay needs one source: name either an archive, or directories of SPUs")
    source: ReplaySource
    if from_archive is not None:
        source = ArchiveSource(os.path.abspath(from_archive), topic_id, store_of)
    else:
        source = SegmentsSource([os.path.abspath(each) for each in from_segments or ()], topic_id)
    if map_directory is None and not dry_run:
        raise ReplayError("a replay needs a directory for its map, by which it can go on after a failure")
    if compression.upper() not in Compression.__members__:
        raise ReplayError(f"{compression} is not a codec: take none, gzip, snappy, lz4 or zstd")
    if speed is not None and not 0 < speed < inf:
        raise ReplayError(f"{speed} is not a speed: give a number above 0, such as 10 for ten times as fast")
    run = _Run(
        spark,
        settings,
        source,
        None if map_directory is None else os.path.abspath(map_directory),
        parse_brokers(bootstrap),
        asked.secret,
        Compression[compression.upper()],
        speed,
        report,
    )
    try:
        return run.dry_run() if dry_run else run.send()
    except OSError as error:
        path = error.filename or map_directory
        raise ReplayError(f"{path} cannot be read or written: {error.strerror or error}") from error


def settings_for(asked: ReplayRequest) -> ReplaySettings:
    """Checks what is asked for, and returns it as it is stored. Raises ReplayError."""
    choice = RecordChoice(_time_ms(asked.start), _time_ms(asked.until), tuple(asked.keys), tuple(asked.key_regexes))
    try:
        RecordChooser(choice)
        masks = RecordMasks(map(parse_mask, asked.masks), asked.secret)
    except (ValueError, MaskError) as error:
        raise ReplayError(str(error)) from None
    if asked.secret and not masks.uses_secret:
        raise ReplayError("the secret has no effect, because no mask makes a hash: leave it out")
    return ReplaySettings(
        asked.topic,
        asked.to_topic,
        choice,
        tuple(asked.masks),
        fingerprint(asked.secret) if asked.secret else "",
        _offsets(asked.topic, asked.start),
        _offsets(asked.topic, asked.until),
        tuple(sorted(set(asked.partitions))),
    )


def _time_ms(bound: Bound) -> int | None:
    return utc_ms(bound) if isinstance(bound, datetime) else None


def _offsets(topic: str, bound: Bound) -> str:
    match bound:
        case int():
            return str(bound)
        case Mapping():
            return json.dumps({topic: {str(each): offset for each, offset in sorted(bound.items())}})
    return ""


class _Run:
    """One call of `replay`."""

    def __init__(
        self,
        spark: "SparkSession",
        settings: ReplaySettings,
        source: ReplaySource,
        directory: str | None,
        brokers: list[Address],
        secret: bytes | None,
        compression: Compression,
        speed: float | None,
        report: "Report | None",
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._source = source
        self._directory = directory
        self._brokers = brokers
        self._secret = secret
        self._compression = compression
        self._speed = speed
        self._report = report

    def dry_run(self) -> ReplayResult:
        """Counts what would be sent, and asks the target only whether it could take it."""
        document = self._known_document()
        found = self._left(document)
        target = self._ask(lambda client: client.target(self._settings.to_topic))
        check_target(target, self._settings.topic, [each.partition for each in found])
        extents = [PartitionExtent(each.partition, each.topic_id, each.start, each.end, 0) for each in found]
        if document is not None:
            extents = list(document.extents)
        tasks = [self._task([each]) for each in partition_tasks(extents, found)]
        looks = self._run(partial(look, is_brief=False), tasks)
        check_retention(target, _first_timestamp(looks), SystemClock().now_ms())
        rows = tuple(_dry_row(each, extent) for each, extent in zip(looks, extents, strict=True))
        return result_of(self._settings.topic, self._settings.to_topic, rows, "would be sent to")

    def send(self) -> ReplayResult:
        """Sends what is left, and sums up."""
        document = self._known_document()
        found = self._left(document)
        target = self._ask(lambda client: client.target(self._settings.to_topic))
        check_target(target, self._settings.topic, [each.partition for each in found])
        if document is None and found:
            document = self._new_document(found, target)
            if document is None:  # another driver has begun this replay in this moment
                document = self._known_document()
                found = self._left(document)
        rows: tuple[ReplayRow, ...] = ()
        if document is not None:
            check_topic_id(document, target.topic_id)
            rows = self._send(document, found, target)
        return result_of(self._settings.topic, self._settings.to_topic, rows, "were sent to")

    def _send(
        self, document: ReplayDocument, found: Sequence[SourcePartition], target: Target
    ) -> tuple[ReplayRow, ...]:
        parts = partition_tasks(document.extents, found)
        pace = self._look_ahead(parts, target)
        producer = (document.producer_id, document.producer_epoch)
        slots = cores_of(self._spark)
        tasks = [self._task(group, producer, pace) for group in grouped(parts, None if pace is None else slots)]
        now = {each.partition: each for each in self._run(send, tasks, document)}
        return tuple(_row(each, self._map, now.get(each.partition)) for each in document.extents)

    # planning

    @property
    def _map(self) -> str:
        assert self._directory is not None, "a replay that sends has a map"
        return self._directory

    def _known_document(self) -> ReplayDocument | None:
        """Returns the document of a replay that has begun. Raises ReplayError if it is another one."""
        content = None if self._directory is None else read_document(self._directory)
        if content is None:
            return None
        document = decode_document(content, self._map)
        check_same(document, self._settings, self._map)
        return document

    def _left(self, document: ReplayDocument | None) -> list[SourcePartition]:
        """Returns what is left of the source."""
        if document is None:
            return self._source.partitions(self._settings)
        left = {}
        for each in document.extents:
            state = last_state(self._map, each.partition)
            position = each.position if state is None else state.position
            if state is None or not state.is_end:
                left[each.partition] = (position.source, each.end)
        found = self._source.partitions(self._settings, left) if left else []
        check_complete(self._settings.topic, left, found)
        return found

    def _new_document(self, found: Sequence[SourcePartition], target: Target) -> ReplayDocument | None:
        """Begins a replay. Returns None if another driver has begun it meanwhile; then that one's document counts."""

        async def ask(client: TargetClient) -> ReplayDocument:
            ends = await client.log_ends(target.topic, [each.partition for each in found])
            name = await client.producer_name()
            extents = (
                PartitionExtent(each.partition, each.topic_id, each.start, each.end, ends[each.partition])
                for each in found
            )
            return ReplayDocument(self._settings, target.topic_id, name.id, name.epoch, tuple(extents))

        document = self._ask(ask)
        return document if write_document(self._map, encode_document(document)) else None

    def _task(
        self, parts: Sequence[PartitionTask], producer: tuple[int, int] = (-1, -1), pace: ReplayPace | None = None
    ) -> ReplayTask:
        return ReplayTask(
            self._settings,
            tuple(parts),
            self._directory,
            self._secret,
            ",".join(map(str, self._brokers)),
            producer,
            self._compression,
            pace,
        )

    def _look_ahead(self, parts: Sequence[PartitionTask], target: Target) -> ReplayPace | None:
        """Looks for the first record, to check its age, and as the origin of the pace."""
        if self._speed is None and target.retention_ms is None:
            return None
        tasks = [self._task([each]) for each in parts]
        looks = self._run(partial(look, is_brief=True), tasks)
        first, now_ms = _first_timestamp(looks), SystemClock().now_ms()
        check_retention(target, first, now_ms)
        return None if self._speed is None else ReplayPace(self._speed, first or 0, now_ms + _LEAD_MS)

    # running

    def _run(
        self, work: Callable[[ReplayTask], list[T]], tasks: Sequence[ReplayTask], document: ReplayDocument | None = None
    ) -> list[T]:
        """Runs tasks, and returns the results of all partitions."""
        report = None
        if document is not None and self._report is not None:
            report = _Watch(document, self._map, self._report)
        found = run_tasks(self._spark, tasks, work, name="replay", report=report, requires=REQUIRED)
        return [each for of_task in found for each in of_task]

    def _ask(self, question: Callable[[TargetClient], Awaitable[T]]) -> T:
        """Asks the brokers of the target. Raises RefusedError and UnreachableError."""

        async def ask() -> T:
            with closing(SpuClient(client_network(), self._brokers, BOOTSTRAP)) as spus:
                return await question(TargetClient(spus))

        try:
            return trio.run(ask)
        except BaseExceptionGroup as group:
            raise first_error(group) from None


def partition_tasks(extents: Sequence[PartitionExtent], found: Sequence[SourcePartition]) -> list[PartitionTask]:
    """Returns the work for each partition. A partition with nothing left to read only gets its end."""
    rows = {each.partition: each.rows for each in found}
    return [PartitionTask(each, rows.get(each.partition, SegmentRows(()))) for each in extents]


def grouped(parts: Sequence[PartitionTask], slots: int | None) -> list[list[PartitionTask]]:
    """Returns the partitions of each task.

    A replay that keeps the pace has at most as many tasks as run at once, so that all partitions stay in step.
    """
    count = len(parts) if slots is None else max(1, min(len(parts), slots))
    return [list(parts[number::count]) for number in range(count)]


def check_complete(topic: str, left: Mapping[int, tuple[int, int]], found: Sequence[SourcePartition]) -> None:
    """Raises ReplayError if the source no longer has what is left of a replay."""
    has = {each.partition: (each.start, each.end) for each in found}
    for partition, (start, end) in left.items():
        if start < end and has.get(partition) != (start, end):
            raise ReplayError(
                f"the source does not have offsets {start} to {end - 1} of {topic}/{partition}, which this replay has "
                "still to send: name the same directories as before"
            )


def _first_timestamp(looks: Sequence[PartitionLook]) -> int | None:
    return min((each.first_timestamp for each in looks if each.first_timestamp is not None), default=None)


class _Watch:
    """Reports how many offsets of the source are done, by the parts of the map."""

    def __init__(self, document: ReplayDocument, directory: str, report: "Report") -> None:
        self._document = document
        self._directory = directory
        self._report = report
        self._next_ms = 0
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        extents = self._document.extents
        offsets = sum(each.end - each.start for each in extents)
        now_ms = SystemClock().now_ms()
        if done == total:
            self._done = offsets
        elif now_ms >= self._next_ms:
            self._next_ms = now_ms + _WATCH_MS
            states = {each.partition: last_state(self._directory, each.partition) for each in extents}
            self._done = sum(
                state.position.source - each.start for each in extents if (state := states[each.partition]) is not None
            )
        self._report(self._done, offsets)


# results


def _row(extent: PartitionExtent, directory: str, outcome: PartitionOutcome | None) -> ReplayRow:
    state = last_state(directory, extent.partition)
    position = extent.position if state is None else state.position
    return ReplayRow(
        partition=extent.partition,
        first=extent.start,
        end=extent.end,
        read=position.read,
        sent=position.ordinal,
        sent_now=0 if outcome is None else outcome.sent,
        found=0 if outcome is None else outcome.found,
        to_first=position.first_target,
        to_end=None if position.first_target is None else position.target,
        rollup=rollup_text(position.rollup),
    )


def _dry_row(found: PartitionLook, extent: PartitionExtent) -> ReplayRow:
    return ReplayRow(
        partition=found.partition,
        first=extent.start,
        end=extent.end,
        read=found.read,
        sent=found.records,
        sent_now=0,
        found=0,
        to_first=None,
        to_end=None,
        rollup=rollup_text(found.rollup),
    )


def result_of(topic: str, to_topic: str, rows: tuple[ReplayRow, ...], what: str) -> ReplayResult:
    """Sums up the partitions."""
    records = sum(each.sent for each in rows)
    return ReplayResult(
        job="replay",
        is_ok=True,
        verdict=f"{records} {'record' if records == 1 else 'records'} of {topic} {what} {to_topic}",
        facts={
            "partitions": len(rows),
            "records read": sum(each.read for each in rows),
            "records sent": records,
            "sent by this run": sum(each.sent_now for each in rows),
            "found in the target": sum(each.found for each in rows),
        },
        rows=rows,
    )
