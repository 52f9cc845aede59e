from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from archive_files import DATE, NEXT_DATE, archived_rows, write_archive, write_chunk
from archive_samples import ARCHIVE, OTHER_ID, TOPIC_ID, archived_partition, chunk
from grouped_spu import grouped_spu
from msgspec.structs import replace
from segment_logs import Spu, append, fill
from spus import ADDRESS

from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget
from tailrace.pipeline.archive.manifest.archive_layout import head_name
from tailrace.pipeline.archive.manifest.archive_manifest import (
    ArchivedPartition,
    Chunk,
    Commit,
    Head,
    Link,
    Manifest,
    Snapshot,
    checksum,
    encode,
)
from tailrace.pipeline.archive.proofs.archive_proof import ChunkProof
from tailrace.pipeline.archive.proofs.archive_verification import (
    Logs,
    compacted_topics,
    existing_topics,
    orphans_of,
    prove,
    verify,
)
from tailrace.pipeline.archive.proofs.chunk_tasks import CheckTask, check_chunks
from tailrace.pipeline.archive.rounds.archive_planning import EARLIEST
from tailrace.pipeline.archive.rounds.archive_sources import SegmentSource
from tailrace.pipeline.archive.rounds.chunk_reading import archive_range
from tailrace.pipeline.archive.stores.archive_folder import create_archive
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
    assert result.faults[0] in result.text().splitlines()


def _forge(root: Path, *chunks: Chunk) -> None:
    """Writes a manifest whose checksums are right, with one commit that no writer makes."""
    create_archive(str(root), ARCHIVE)
    commit = Commit(ARCHIVE.id, 1, 0, partitions_added=(archived_partition(),), chunks_added=chunks)
    content = encode(commit)
    (root / "manifest" / "0000000001-ffffffff.json").write_bytes(content)
    link = Link("0000000001-ffffffff.json", checksum(content))
    (root / "manifest" / head_name(1)).write_bytes(encode(Head(ARCHIVE.id, 1, link, {TOPIC_ID: {0: chunks[-1].end}})))


@pytest.mark.parametrize(
    ("chunks", "fault"),
    [
        ((chunk(0, 10), chunk(0, 10, token="ffffffff")), "orders/0 has the offsets 0 to 9 twice in the archive"),
        ((chunk(0, 10), chunk(20, 30)), "orders/0 has the offsets 10 to 19 nowhere in the archive"),
        ((replace(chunk(0, 10), files=()),), "of orders has another number of records than its files"),
    ],
)
def test_a_manifest_with_a_chunk_twice_or_a_lost_chunk_or_file_proves_nothing(
    tmp_path: Path, chunks: Sequence[Chunk], fault: str
) -> None:
    _forge(tmp_path, *chunks)
    result = verify(None, str(tmp_path))  # type: ignore[arg-type]
    assert (result.is_ok, len(result.faults)) == (False, 1)
    assert fault in result.faults[0]


def test_a_directory_that_is_no_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is no archive"):
        verify(None, str(tmp_path))  # type: ignore[arg-type]


async def test_brokers_say_which_topics_are_compacted(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.running.create("customers", 1, {"cleanup.policy": "compact,delete"})
        client = BrokerClient(spu.network, [str(ADDRESS)], RandomChance(1))
        assert await compacted_topics(client, ["orders", "customers"]) == {"customers"}
        assert await existing_topics(client, ["customers", "gone"]) == ["customers"]
        client.close()


async def _segments(directory: Path) -> str:
    spu = Spu(directory)
    log = spu.log()
    fill(log, 180)
    await log.sync()
    await spu.commit(log.log_end)
    return str(directory)


def _archived(root: Path, source: SegmentSource, *, positions: Sequence[int]) -> Manifest:
    """Archives the chunks between these positions."""
    (extent,) = source.look(None, EARLIEST, None)
    target = ChunkTarget(str(root), "events", extent.topic_id, 0)
    chunks = [
        archive_range(task).chunks[0]
        for start, end in pairwise(positions)
        for task in source.tasks(extent, target, "", start, end)
    ]
    begin = ArchivedPartition("events", extent.topic_id, 0, positions[0])
    return Manifest(1, Snapshot((begin,), tuple(chunks)))


def _check(root: Path, manifest: Manifest, logs: Logs) -> list[ChunkProof]:
    return check_chunks(CheckTask(str(root), tuple(manifest.chunks), logs.of_chunks(manifest.chunks)))


async def test_an_archive_of_segments_equals_them(tmp_path: Path) -> None:
    source = SegmentSource([await _segments(tmp_path / "spu")])
    manifest = _archived(tmp_path / "archive", source, positions=[0, 70, 180])
    proofs = _check(tmp_path / "archive", manifest, Logs(source, manifest, []))
    assert [(each.problems, each.compared, each.gone, each.log_end) for each in proofs] == [
        ((), 70, 0, 180),
        ((), 110, 0, 180),
    ]


async def test_a_log_of_segments_that_is_another_one_is_found(tmp_path: Path) -> None:
    source = SegmentSource([await _segments(tmp_path / "spu")])
    manifest = _archived(tmp_path / "archive", source, positions=[0, 180])
    spu = Spu(tmp_path / "other")
    log = spu.log()
    fill(log, 100)
    append(log, [(b"key-2", b"forged")])
    fill(log, 79)
    await log.sync()
    await spu.commit(log.log_end)
    (proof,) = _check(tmp_path / "archive", manifest, Logs(SegmentSource([str(tmp_path / "other")]), manifest, []))
    assert proof.problems == ("events/0: offset 100 has another record than the log",)


async def test_a_topic_that_the_log_does_not_have_is_a_note(tmp_path: Path) -> None:
    source = SegmentSource([await _segments(tmp_path)])
    manifest = Manifest(1, Snapshot((archived_partition(topic_id=OTHER_ID),), (chunk(0, 10, topic_id=OTHER_ID),)))
    logs = Logs(source, manifest, [])
    assert logs.of_chunks(manifest.chunks) is None
    assert logs.notes == [
        f"the log has no topic orders with the id {OTHER_ID}, so its records are compared with nothing"
    ]
    assert Logs(None, manifest, []).notes == []


async def test_a_partition_that_the_log_does_not_have_is_a_note(tmp_path: Path) -> None:
    source = SegmentSource([await _segments(tmp_path / "spu")])
    archived = _archived(tmp_path / "archive", source, positions=[0, 180])
    (here,) = archived.partitions
    elsewhere = replace(here, partition=1)
    other = replace(chunk(0, 10, 1, topic_id=here.topic_id), topic=here.topic)
    logs = Logs(source, Manifest(1, Snapshot((here, elsewhere), (*archived.chunks, other))), [])
    assert logs.of_chunks(archived.chunks) is not None
    assert logs.of_chunks([other]) is None
    assert logs.notes == ["the log has no partition events/1, so its records are compared with nothing"]
