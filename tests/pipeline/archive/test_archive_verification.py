from pathlib import Path

import pytest
from archive_files import DATE, NEXT_DATE, archived_rows, write_archive, write_chunk
from archive_samples import TOPIC_ID, archived_partition, chunk
from grouped_spu import grouped_spu
from spus import ADDRESS

from tailrace.pipeline.archive.archive_manifest import Manifest, Snapshot
from tailrace.pipeline.archive.archive_proof import ChunkProof
from tailrace.pipeline.archive.archive_verification import logs_of, orphans_of, prove, verify
from tailrace.pipeline.brokers.broker_reading import BrokerClient
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.chance import RandomChance


def test_the_proofs_of_chunks_become_proofs_of_partitions() -> None:
    chunks = [chunk(0, 10), chunk(10, 20), chunk(5, 7, 1)]
    manifest = Manifest(3, Snapshot((archived_partition(), archived_partition(1, 5)), tuple(chunks)))
    first, second = prove(manifest, chunks, [ChunkProof(), ChunkProof(problems=("wrong",)), ChunkProof()])
    assert (first.partition, first.first, first.last, first.chunks, first.problems) == (0, 0, 19, 2, ("wrong",))
    assert (second.partition, second.first, second.last, second.is_proven) == (1, 5, 6, True)


def test_files_that_do_not_count_are_named(tmp_path: Path) -> None:
    files = {DATE: archived_rows([0, 2]), NEXT_DATE: archived_rows([1], date=NEXT_DATE)}
    folder = write_archive(tmp_path, write_chunk(tmp_path, 0, 3, files))
    write_chunk(tmp_path, 3, 4, {DATE: archived_rows([3])}, token="deadbeef")
    (orphan,) = orphans_of(str(tmp_path), folder.load().manifest)
    assert orphan.startswith("data/orders/date=2026-11-28/")
    assert orphan.endswith("-e0-deadbeef.parquet")


def test_an_empty_archive_is_proven_without_a_task(tmp_path: Path) -> None:
    write_archive(tmp_path)
    result = verify(None, str(tmp_path))  # type: ignore[arg-type]
    assert (result.is_ok, result.verdict) == (True, "the archive is empty")


def test_a_damaged_manifest_is_the_fault(tmp_path: Path) -> None:
    write_archive(tmp_path, chunk(0, 10), chunk(10, 20))
    (path,) = tmp_path.glob("manifest/0000000001-*.json")
    path.write_bytes(path.read_bytes().replace(b'"end":10', b'"end":11'))
    result = verify(None, str(tmp_path))  # type: ignore[arg-type]
    assert (result.is_ok, result.status, result.verdict) == (False, 1, "1 problem in 0 of 0 partitions")
    assert "has another checksum than its successor says" in result.faults[0]


def test_a_directory_that_is_no_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is no archive"):
        verify(None, str(tmp_path))  # type: ignore[arg-type]


async def test_brokers_say_where_logs_end_and_which_are_compacted(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.produce("orders", 0, 7)
        client = BrokerClient(spu.network, [str(ADDRESS)], RandomChance(1))
        (topic,) = await client.topics(["orders"])
        here = archived_partition(topic_id=str(topic.id))
        logs, notes = await logs_of(client, Manifest(0, Snapshot((here,), ())))
        log = logs[str(topic.id)]
        assert (log.topic_id, log.ends, log.is_compacted, notes) == (topic.id, {0: 7}, False, [])
        earlier = Manifest(0, Snapshot((archived_partition(topic_id=TOPIC_ID),), ()))
        assert await logs_of(client, earlier) == (
            {},
            [f"topic orders with the id {TOPIC_ID} was deleted and made again: its records are compared with nothing"],
        )
        client.close()
