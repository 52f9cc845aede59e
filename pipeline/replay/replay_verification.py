"""`verify_replay(spark, …)`: reads the target of a replay again, and compares it with the map and the source."""

import os
from contextlib import aclosing, closing
from typing import TYPE_CHECKING

import trio
from msgspec import Struct

from tailrace.client.client_network import client_network
from tailrace.client.log_client import LogClient, ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.archive.manifest.record_rollup import record_hashes
from tailrace.pipeline.jobs.broker_addresses import parse_brokers
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.pipeline.jobs.spark_session import check_classic
from tailrace.pipeline.jobs.task_running import run_tasks
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import Record

from .map_parts import last_state, partition_ranges, read_document
from .offset_map import PartState
from .record_stream import batch_of
from .replay_document import PartitionExtent, ReplayDocument, decode_document
from .replay_line import ReplayError
from .replay_proof import PartitionProof, ReplayProof
from .replay_task import REQUIRED, addresses
from .target_log import TargetLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.pipeline.jobs.job_progress import Report


class VerifyReplayResult(JobResult, frozen=True, kw_only=True):
    """What the target has of a replay."""

    rows: tuple[PartitionProof, ...] = ()


class _VerifyTask(Struct, frozen=True):
    """One partition to verify."""

    directory: str
    topic: str
    extent: PartitionExtent
    producer: tuple[int, int]
    bootstrap: str


def verify_replay(
    spark: "SparkSession", map_directory: str, *, bootstrap: str | None = None, report: "Report | None" = None
) -> VerifyReplayResult:
    """Proves that the target has each record of a replay once, where the map says, with the right content.

    Raises JobError with one sentence.
    """
    check_classic(spark, "verify-replay")
    directory = os.path.abspath(map_directory)
    document = document_at(directory)
    brokers = ",".join(map(str, parse_brokers(bootstrap)))
    producer = (document.producer_id, document.producer_epoch)
    tasks = [_VerifyTask(directory, document.settings.to_topic, each, producer, brokers) for each in document.extents]
    proofs = run_tasks(spark, tasks, _verify, name="verify-replay", report=report, requires=REQUIRED)
    return result_of_proofs(document.settings.to_topic, tuple(proofs))


def document_at(directory: str) -> ReplayDocument:
    """Reads what a map is. Raises ReplayError."""
    content = read_document(directory)
    if content is None:
        raise ReplayError(f"{directory} is no map of a replay: name the directory that the replay got as --map")
    return decode_document(content, directory)


def result_of_proofs(topic: str, proofs: tuple[PartitionProof, ...]) -> VerifyReplayResult:
    """Sums up the partitions."""
    wrong = [each for each in proofs if each.verdict != "equal"]
    verdict = f"{topic} has each of {sum(each.records for each in proofs)} records once, with the content that was sent"
    if wrong:
        verdict = f"{topic}/{wrong[0].partition}: {wrong[0].verdict}"
    return VerifyReplayResult(
        job="verify-replay",
        is_ok=not wrong,
        verdict=verdict,
        facts={
            "partitions": len(proofs),
            "records": sum(each.records for each in proofs),
            "present": sum(each.present for each in proofs),
            "duplicates": sum(each.duplicates for each in proofs),
            "misplaced": sum(each.misplaced for each in proofs),
        },
        rows=proofs,
    )


def _verify(task: _VerifyTask) -> PartitionProof:
    """Verifies one partition on an executor."""
    try:
        return trio.run(_verify_partition, task)
    except (RefusedError, UnreachableError) as error:
        raise ReplayError(str(error)) from None


async def _verify_partition(task: _VerifyTask) -> PartitionProof:
    number = task.extent.partition
    state = last_state(task.directory, number) or PartState(task.extent.position)
    proof = ReplayProof(number, state, partition_ranges(task.directory, number), _hashes)
    spus = SpuClient(client_network(), addresses(task.bootstrap), BOOTSTRAP)
    with closing(spus):
        partition = Partition(task.topic, number)
        target = TargetLog(LogClient(spus), partition, ProducerName(*task.producer), Compression.NONE)
        async with aclosing(target.all_landed(task.extent.target_start)) as landed:
            async for batches in landed:
                proof.on_landed(batches)
    return proof.result()


def _hashes(records: list[Record]) -> list[int]:
    found: list[int] = record_hashes(batch_of(records)).tolist()
    return found
