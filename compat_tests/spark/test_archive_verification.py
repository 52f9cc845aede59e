"""`tailrace pipeline archive verify` proves an archive of a live topic, and finds whatever is broken on purpose."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trio
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tailrace.cli.main import main
from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget, write_chunks
from tailrace.pipeline.archive.manifest.archive_manifest import Archive, ArchivedPartition, Chunk
from tailrace.pipeline.archive.manifest.record_rollup import batch_rollup
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive
from tailrace.pipeline.brokers.broker_reading import BrokerClient, BrokerRange, TopicLayout, each_piece
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import TcpNetwork

from .kafka_side import KafkaSide

RECORDS = 40
"""How many records a chunk has."""


async def _layout(bootstrap: str, topic: str) -> TopicLayout:
    client = BrokerClient(TcpNetwork(send_buffer_bytes=0), [bootstrap], RandomChance())
    try:
        (found,) = await client.topics([topic])
        return found
    finally:
        client.close()


class Archived:
    """An archive of one topic, which tests may damage."""

    def __init__(self, root: Path, bootstrap: str, topic: str) -> None:
        self.root = root
        self.topic = topic
        self._bootstrap = bootstrap
        self._layout = trio.run(_layout, bootstrap, topic)
        create_archive(str(root), Archive("2c0f5d31-90f6-4f5a-8a0b-9d1f53d2c8aa", "files"))

    def chunk(self, start: int, end: int) -> Chunk:
        layout = self._layout
        wanted = BrokerRange(layout.name, layout.id, 0, start, end)
        target = ChunkTarget(str(self.root), layout.name, str(layout.id), 0)
        (chunk,) = write_chunks(target, RandomChance(), partial(each_piece, [self._bootstrap], wanted)).chunks
        return chunk

    def forged(self, chunk: Chunk) -> Chunk:
        """Writes the chunk again with another first value, and everything else as if that were right."""
        path = self.root / chunk.files[0].path
        table = pq.read_table(path, partitioning=None)
        values = pa.array([b"forged", *table["value"].to_pylist()[1:]], pa.binary())
        table = table.set_column(table.column_names.index("value"), "value", values)
        other = path.with_name(path.name.replace(chunk.token, "deadbeef"))
        pq.write_table(table, other)
        file = replace(
            chunk.files[0],
            path=str(other.relative_to(self.root)),
            bytes=other.stat().st_size,
            rollup=batch_rollup(table),
            sha256=None,
        )
        return replace(chunk, token="deadbeef", rollup=file.rollup, files=(file,))

    def commit(self, *chunks: Chunk) -> None:
        folder = ArchiveFolder(str(self.root))
        begin = ArchivedPartition(self._layout.name, str(self._layout.id), 0, chunks[0].start)
        committed = folder.commit(folder.load(), "5f3a9c01", 0, partitions_added=[begin], chunks_added=chunks)
        assert committed is not None

    def verify(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
        where = () if "--offline" in words else ("--bootstrap", self._bootstrap)
        status = main(["pipeline", "archive", "verify", str(self.root), *where, *words])
        said = capsys.readouterr()
        assert said.err == ""
        return status, said.out


@pytest.fixture
def archived(spark_session: SparkSession, kafka_side: KafkaSide, tmp_path: Path) -> Archived:
    topic = kafka_side.new_topic("archived")
    kafka_side.send_values(topic, range(3 * RECORDS))
    return Archived(tmp_path / "archive", kafka_side.bootstrap, topic)


def test_an_archive_is_proven_before_and_after_it_is_compacted_and_the_log_loses_records(
    archived: Archived, kafka_side: KafkaSide, capsys: pytest.CaptureFixture[str]
) -> None:
    archived.commit(*(archived.chunk(start, start + RECORDS) for start in range(0, 3 * RECORDS, RECORDS)))
    status, said = archived.verify(capsys, "--output", "json")
    (proof,) = json.loads(said)["partitions"]
    assert main(["pipeline", "archive", "compact", str(archived.root)]) == 0
    assert capsys.readouterr().out.endswith("ok: 1 group of small chunks became one chunk\n")
    status, said = archived.verify(capsys, "--output", "json")
    (compacted,) = json.loads(said)["partitions"]
    assert compacted == {**proof, "chunks": 1, "files": 1}
    assert (status, proof["first"], proof["last"], proof["records"], proof["compared"]) == (0, 0, 119, 120, 120)
    assert (proof["gaps"], proof["behind"], proof["problems"]) == ({}, 0, [])
    kafka_side.delete_records_before(archived.topic, 0, RECORDS + 10)
    status, said = archived.verify(capsys)
    assert status == 0
    assert said.endswith(
        "proven: the archive has 120 records of 1 partition exactly once, and 70 records equal those of the log, which "
        "does not have 50 records any more\n"
    )
    kafka_side.delete_topic(archived.topic)
    status, said = archived.verify(capsys, "--output", "json")
    assert (status, json.loads(said)["partitions"][0]["compared"]) == (0, 0)
    assert "so its records are compared with nothing" in json.loads(said)["notes"][0]


def test_whatever_is_broken_is_named(archived: Archived, capsys: pytest.CaptureFixture[str]) -> None:
    lost, forged, hidden = (archived.chunk(start, start + RECORDS) for start in range(0, 3 * RECORDS, RECORDS))
    forged = archived.forged(forged)
    hidden = replace(hidden, records=0, rollup=0, files=(), gaps=(Gap(hidden.start, hidden.end - 1, "compaction"),))
    archived.commit(lost, forged, hidden)
    # What a job wrote wrongly, only the log can tell.
    status, said = archived.verify(capsys, "--offline", "--output", "json")
    assert (status, json.loads(said)["facts"]["files that do not count"]) == (0, 2)
    (archived.root / lost.files[0].path).unlink()
    status, said = archived.verify(capsys, "--output", "json")
    (proof,) = json.loads(said)["partitions"]
    assert status == 1
    assert proof["problems"] == [
        f"{lost.files[0].path} is missing",
        f"{archived.topic}/0: offset {RECORDS} has another record than the log",
        f"{archived.topic}/0: offsets {2 * RECORDS} to {3 * RECORDS - 1} are missing, and the log has their records",
    ]
