"""Verifies an archive: tasks check its chunks, and the driver puts their proofs together.

Without the broker, only the archive itself is checked: its manifest, its files and their records.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from tailrace.client.admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import unless_refused
from tailrace.pipeline.brokers.broker_reading import LATEST, REQUIRED, BrokerClient
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.pipeline.jobs.task_running import run_tasks
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.embedded.plain_files import files_below
from tailrace.runtime.network import TcpNetwork

from .archive_folder import ArchiveFolder, StoreOf
from .archive_layout import DATA, archived_topic_id
from .archive_manifest import Chunk, Manifest, ManifestError
from .archive_proof import ChunkProof, PartitionProof, prove_partition, verdict
from .chunk_tasks import CheckTask, LogOfTopic, check_chunks, plan_checks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.pipeline.jobs.job_progress import Report

NAME = "archive verify"
ORPHANS_SHOWN_MAX = 20
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


def verify(
    spark: "SparkSession",
    directory: str,
    *,
    brokers: Sequence[str] = (),
    store_of: StoreOf | None = None,
    report: "Report | None" = None,
) -> VerifyResult:
    """Verifies the archive in `directory`, and compares it with the log at the brokers if there are any.

    Raises JobError if the archive cannot be read, and RefusedError and UnreachableError of brokers.
    """
    folder = ArchiveFolder(directory, store_of)
    try:
        loaded = folder.load()
    except ManifestError as error:
        return _result([], [str(error)], [], [], is_offline=not brokers)
    manifest = loaded.manifest
    logs, notes = trio.run(_ask, brokers, manifest) if brokers else ({}, [])
    groups = list(plan_checks(manifest.chunks))
    tasks = [CheckTask(directory, group, tuple(brokers), logs.get(group[0].topic_id)) for group in groups]
    requires = REQUIRED if logs else ()
    proofs = run_tasks(spark, tasks, check_chunks, name=NAME, report=report, requires=requires)
    partitions = prove(
        manifest, [chunk for group in groups for chunk in group], [each for some in proofs for each in some]
    )
    return _result(partitions, [], notes, orphans_of(directory, manifest), is_offline=not brokers)


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


async def _ask(brokers: Sequence[str], manifest: Manifest) -> tuple[dict[str, LogOfTopic], list[str]]:
    client = BrokerClient(TcpNetwork(send_buffer_bytes=0), brokers, RandomChance())
    try:
        return await logs_of(client, manifest)
    finally:
        client.close()


async def logs_of(client: BrokerClient, manifest: Manifest) -> tuple[dict[str, LogOfTopic], list[str]]:
    """Asks brokers for the topics of an archive. Returns them by archived topic id, and what the brokers do not have.

    Raises RefusedError, UnreachableError and JobError.
    """
    layouts = {each.name: each for each in await client.topics(None)}
    found: dict[str, LogOfTopic] = {}
    notes: list[str] = []
    for topic, topic_id in sorted({(each.topic, each.topic_id) for each in manifest.partitions}):
        layout = layouts.get(topic)
        if layout is None or archived_topic_id(topic, layout.id) != topic_id:
            what = "was deleted" if layout is None else "was deleted and made again"
            notes.append(f"topic {topic} with the id {topic_id} {what}: its records are compared with nothing")
            continue
        numbers = [each.partition for each in manifest.partitions if each.topic_id == topic_id]
        partitions = [Partition(topic, number) for number in numbers]
        ends = await client.offsets_at(partitions, LATEST)
        resource = ConfigResource(TOPIC_RESOURCE, topic)
        configs = unless_refused((await AdminClient(client.spus).configs_of([resource]))[resource])
        policy = next((each.value for each in configs if each.name == _POLICY), None) or ""
        found[topic_id] = LogOfTopic(
            layout.id, {each.number: end for each, end in ends.items()}, _COMPACT in policy.split(",")
        )
    return found, notes
