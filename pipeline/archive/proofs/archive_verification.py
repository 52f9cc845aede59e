"""Verifies an archive: tasks check its chunks, and the driver puts their proofs together.

Without the broker, only the archive itself is checked: its manifest, its files and their records.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from tailrace.client.admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource
from tailrace.client.client_network import client_network
from tailrace.client.server_connection import unless_refused
from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget
from tailrace.pipeline.archive.manifest.archive_layout import DATA
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk, Manifest, ManifestError
from tailrace.pipeline.archive.manifest.rollup_sums import rollup_text
from tailrace.pipeline.archive.rounds.archive_planning import EARLIEST, LogExtent
from tailrace.pipeline.archive.rounds.archive_rounds import source_of
from tailrace.pipeline.archive.rounds.archive_sources import ArchiveSource
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, StoreOf
from tailrace.pipeline.brokers.broker_reading import BrokerClient
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.pipeline.jobs.spark_session import check_classic
from tailrace.pipeline.jobs.task_running import run_tasks
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.embedded.plain_files import files_below

from .archive_proof import ChunkProof, PartitionProof, prove_partition, verdict
from .chunk_tasks import CheckTask, ChunkLog, check_chunks, plan_checks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.pipeline.jobs.job_progress import Report

NAME = "archive verify"
ORPHANS_SHOWN_MAX = 20
T = TypeVar("T")
_POLICY, _COMPACT = "cleanup.policy", "compact"


class VerifyResult(JobResult, frozen=True):
    """The proof, or what is wrong."""

    partitions: tuple[PartitionProof, ...] = ()
    faults: tuple[str, ...] = ()
    """What is wrong with the archive as a whole."""
    notes: tuple[str, ...] = ()
    """Facts that are no problem."""
    orphans: tuple[str, ...] = ()
    """Files that are no part of the archive. Attempts that failed leave them, and merged chunks do."""

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, as sentences."""
        return [*(each for proof in self.partitions for each in proof.problems), *self.faults]

    def text(self) -> str:
        """Returns the proof of each partition, the problems, the facts and the verdict, in lines."""
        proofs = [
            f"{each.topic}/{each.partition}: offsets {each.first} to {each.last}, {each.records} records, roll-up "
            f"{rollup_text(each.rollup)}: {'proven' if each.is_proven else 'not proven'}"
            for each in self.partitions
        ]
        return "\n".join([*proofs, *self.problems, *self.notes, super().text()])


def verify(
    spark: "SparkSession",
    directory: str,
    *,
    brokers: Sequence[str] = (),
    segments: Sequence[str] = (),
    store_of: StoreOf | None = None,
    report: "Report | None" = None,
) -> VerifyResult:
    """Verifies the archive in `directory`, and compares it with the log if brokers or data directories are given.

    Raises JobError if the archive or a data directory cannot be read, and RefusedError and UnreachableError of brokers.
    """
    check_classic(spark, NAME)
    folder = ArchiveFolder(directory, store_of)
    is_offline = not brokers and not segments
    try:
        loaded = folder.load()
    except ManifestError as error:
        return _result([], [str(error)], [], [], is_offline=is_offline)
    manifest = loaded.manifest
    source = None if is_offline else source_of(brokers, segments)
    logs = Logs(source, manifest, brokers)
    tasks = [CheckTask(folder.directory, chunks, logs.of_chunks(chunks)) for chunks in plan_checks(manifest.chunks)]
    requires = source.requires if source is not None else ()
    proofs = run_tasks(spark, tasks, check_chunks, name=NAME, report=report, requires=requires)
    partitions = prove(
        manifest, [chunk for task in tasks for chunk in task.chunks], [each for some in proofs for each in some]
    )
    return _result(partitions, [], logs.notes, orphans_of(folder.directory, manifest), is_offline=is_offline)


def _result(
    partitions: Sequence[PartitionProof],
    faults: Sequence[str],
    notes: Sequence[str],
    orphans: Sequence[str],
    *,
    is_offline: bool,
) -> VerifyResult:
    return VerifyResult(
        job=NAME,
        is_ok=not faults and all(each.is_proven for each in partitions),
        verdict=verdict(partitions, faults, is_offline=is_offline),
        facts={
            "partitions": len(partitions),
            "chunks": sum(each.chunks for each in partitions),
            "files": sum(each.files for each in partitions),
            "records": sum(each.records for each in partitions),
            "records compared": None if is_offline else sum(each.compared for each in partitions),
            "files that do not count": len(orphans),
        },
        partitions=tuple(partitions),
        faults=tuple(faults),
        notes=tuple(notes),
        orphans=tuple(orphans[:ORPHANS_SHOWN_MAX]),
    )


def prove(manifest: Manifest, chunks: Sequence[Chunk], proofs: Sequence[ChunkProof]) -> list[PartitionProof]:
    """Puts the proofs of the chunks together, for each partition of the manifest."""
    positions = manifest.positions()
    by_partition: dict[tuple[str, int], list[tuple[Chunk, ChunkProof]]] = {}
    for pair in zip(chunks, proofs, strict=True):
        by_partition.setdefault(pair[0].key, []).append(pair)
    return [
        prove_partition(each, by_partition.get(each.key, []), positions[each.topic_id][each.partition])
        for each in manifest.partitions
    ]


def orphans_of(root: str, manifest: Manifest) -> list[str]:
    """Returns the files below `data` that the manifest does not name."""
    named = {file.path for file in manifest.files()}
    return [path for each in files_below(f"{root}/{DATA}") if (path := f"{DATA}/{each}") not in named]


class Logs:
    """What the source has of the topics of an archive."""

    def __init__(self, source: ArchiveSource | None, manifest: Manifest, brokers: Sequence[str]) -> None:
        """Asks the source. Raises JobError, RefusedError and UnreachableError."""
        self._source = source
        topics = sorted({(each.topic, each.topic_id) for each in manifest.partitions})
        names = sorted({topic for topic, _ in topics})
        # What is wrong with other topics does not matter.
        there = trio.run(_asked, brokers, partial(existing_topics, topics=names)) if brokers else None
        extents = [] if source is None or there == [] else source.look(there, EARLIEST, None)
        self._extents = {each.key: each for each in extents}
        known = {each.topic_id for each in extents}
        self.notes = [
            f"the log has no topic {topic} with the id {topic_id}, so its records are compared with nothing"
            for topic, topic_id in topics
            if source is not None and topic_id not in known
        ]
        # The data directory of one SPU does not have all partitions.
        self.notes += [
            f"the log has no partition {each.topic}/{each.partition}, so its records are compared with nothing"
            for each in manifest.partitions
            if each.topic_id in known and each.key not in self._extents
        ]
        self._compacted = trio.run(_asked, brokers, partial(compacted_topics, topics=there)) if there else set()
        self._may_be_compacted = not brokers

    def of_chunks(self, chunks: Sequence[Chunk]) -> tuple[ChunkLog, ...] | None:
        """Returns where the log has the offsets of neighbouring chunks; None if it has nothing of their partition."""
        extent = self._extents.get(chunks[0].key)
        if self._source is None or extent is None:
            return None
        return tuple(self._of_chunk(self._source, extent, chunk) for chunk in chunks)

    def _of_chunk(self, source: ArchiveSource, extent: LogExtent, chunk: Chunk) -> ChunkLog:
        target = ChunkTarget("", chunk.topic, chunk.topic_id, chunk.partition)
        # The files of a live SPU may say less than is committed.
        end = max(extent.end, chunk.end) if extent.log_end is None else extent.log_end
        last = min(chunk.end, extent.end)
        reads = tuple(source.tasks(extent, target, "", chunk.start, last)) if chunk.start < last else ()
        return ChunkLog(reads, end, self._may_be_compacted or chunk.topic in self._compacted)


async def _asked(brokers: Sequence[str], ask: Callable[[BrokerClient], Awaitable[T]]) -> T:
    client = BrokerClient(client_network(waits_awake=True), brokers, RandomChance())
    try:
        return await ask(client)
    finally:
        client.close()


async def existing_topics(client: BrokerClient, topics: Sequence[str]) -> list[str]:
    """Returns those of the topics that exist. Raises RefusedError and UnreachableError."""
    existing = {each.name for each in await client.topics(None)}
    return [topic for topic in topics if topic in existing]


async def compacted_topics(client: BrokerClient, topics: Sequence[str]) -> set[str]:
    """Returns which of the topics are compacted. Raises RefusedError and UnreachableError."""
    resources = {ConfigResource(TOPIC_RESOURCE, topic): topic for topic in topics}
    answers = await AdminClient(client.spus).configs_of(resources)
    return {
        topic
        for resource, topic in resources.items()
        for each in unless_refused(answers[resource])
        if each.name == _POLICY and _COMPACT in (each.value or "").split(",")
    }
