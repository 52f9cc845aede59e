"""Stores what a backfill emits in an archive, exactly once.

What the events of one chunk emit, and the fact that the chunk is done, are one commit of the archive's manifest. The
fact is a chunk without records in the topic `TOPIC.GROUP.handled`: its offsets are those of the records that were
handled. So a commit of the same chunk by another attempt does not fit, and nothing counts twice.
"""

from collections.abc import Callable, Sequence
from uuid import UUID, uuid5

import trio

from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget, ChunkWriter, remove_files
from tailrace.pipeline.archive.manifest.archive_manifest import Archive, ArchivedPartition, Chunk
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive, new_token
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.arrow_rows import Source
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.log_pieces import LogBatch, piece_of
from tailrace.pipeline.segments.segment_columns import ENTRY_TYPES, EVENT
from tailrace.pipeline.segments.segment_reading import ReadBatch
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.runtime.chance import Chance
from tailrace.runtime.wall_clock import WallClock
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.replica.output_sender import letter_output
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.shards.line_effects import Sending
from tailrace.trigger.work import Output

from .backfill_planning import BackfillTask

BATCH_RECORDS_MAX = 500
BATCH_BYTES_MAX = 1 << 20
_NAMESPACE = UUID("1d6e1c57-5a0c-4c43-8a7e-5f4c1a9b7f10")
_RECORD_BYTES = 100


def open_output_archive(directory: str, chance: Chance) -> None:
    """Makes the directory an archive, unless it is one. Raises JobError and ManifestError."""
    create_archive(directory, Archive(str(chance.uuid()), "files"))
    ArchiveFolder(directory)


class OutputArchive:
    """The archive, as the task of one partition uses it."""

    def __init__(self, task: BackfillTask, chance: Chance, wall_clock: WallClock) -> None:
        """Opens the archive. Raises JobError and ManifestError."""
        assert task.output_archive is not None, "the backfill has an output archive"
        self._folder = ArchiveFolder(task.output_archive)
        self._task = task
        self._chance = chance
        self._wall_clock = wall_clock
        self._progress_id = task.id.progress_id(task.topic_id)
        self._progress_topic = f"{task.id.topic}.{task.id.group}.handled"

    def position(self) -> int | None:
        """Returns the first offset that is not done; None if no chunk is done. Raises JobError and ManifestError."""
        return self._positions().get(self._progress_id, {}).get(self._task.partition)

    def begin(self, metrics: ReplicaMetrics) -> "ChunkOutput":
        """Begins to store what a chunk emits."""
        archive, partition, positions = self._folder.archive.id, self._task.partition, self._positions()
        return ChunkOutput(
            self._folder.directory,
            lambda topic: _topic_id(archive, topic),
            lambda topic_id: positions.get(topic_id, {}).get(partition, 0),
            partition,
            self._task.work.config,
            metrics,
            self._chance,
            self._wall_clock,
        )

    def commit(self, start: int, end: int, output: "ChunkOutput") -> bool:
        """Makes the output of the offsets [start, end) a part of the archive, with the fact that they are done.

        Returns False, and removes the output, if another attempt has done so before. Raises JobError and
        ManifestError.
        """
        token = new_token(self._chance)
        chunks = output.finish()
        done = Chunk(
            topic=self._progress_topic,
            topic_id=self._progress_id,
            partition=self._task.partition,
            start=start,
            end=end,
            token=token,
            records=0,
            rollup=0,
            gaps=(Gap(start, end - 1, "marker"),),
        )
        while True:
            loaded = self._folder.load()
            positions = loaded.manifest.positions()
            known = {each.key for each in loaded.manifest.partitions}
            if done.key in known and positions[done.topic_id][done.partition] != start:
                remove_files(self._folder.directory, chunks)
                return False
            self._check_ends(chunks, positions)
            firsts = {each.key: each for each in reversed([*chunks, done])}
            added = [
                ArchivedPartition(each.topic, each.topic_id, each.partition, each.start)
                for key, each in firsts.items()
                if key not in known
            ]
            time_ms = self._wall_clock.now_ms()
            if self._folder.commit(loaded, token, time_ms, partitions_added=added, chunks_added=[*chunks, done]):
                return True

    def _check_ends(self, chunks: Sequence[Chunk], positions: dict[str, dict[int, int]]) -> None:
        ends: dict[str, int] = {}
        for chunk in chunks:
            end = ends.get(chunk.topic_id, positions.get(chunk.topic_id, {}).get(chunk.partition, 0))
            if chunk.start != end:
                remove_files(self._folder.directory, chunks)
                raise JobError(
                    f"another backfill writes to {chunk.topic}/{chunk.partition} of {self._folder.directory}: let it "
                    "end, and run this one again"
                )
            ends[chunk.topic_id] = chunk.end

    def _positions(self) -> dict[str, dict[int, int]]:
        return self._folder.load().manifest.positions()


def _topic_id(archive: str, topic: str) -> str:
    return str(uuid5(_NAMESPACE, f"{archive} {topic}"))


class ChunkOutput:
    """What the events of one chunk emit, on its way to Parquet files."""

    def __init__(
        self,
        directory: str,
        id_of: Callable[[str], str],
        end_of: Callable[[str], int],
        partition: int,
        config: TriggerConfig,
        metrics: ReplicaMetrics,
        chance: Chance,
        wall_clock: WallClock,
    ) -> None:
        """`id_of` returns the id of a topic, and `end_of` where the archive has its next record."""
        self._directory = directory
        self._id_of = id_of
        self._end_of = end_of
        self._partition = partition
        self._config = config
        self._metrics = metrics
        self._chance = chance
        self._wall_clock = wall_clock
        self._topics: dict[str, _TopicOutput] = {}

    async def send(self, sending: Sending) -> None:
        """Writes output and dead letters."""
        await trio.lowlevel.checkpoint()
        letters = [letter_output(each, self._config) for each in sending.dead_letters]
        now_ms = self._wall_clock.now_ms()
        for output in (*sending.outputs, *letters):
            if output.topic not in self._topics:
                topic_id = self._id_of(output.topic)
                target = ChunkTarget(self._directory, output.topic, topic_id, self._partition)
                self._topics[output.topic] = _TopicOutput(target, self._end_of(topic_id), self._chance)
            self._topics[output.topic].add(output, now_ms)
        self._metrics.outputs += len(sending.outputs)

    def finish(self) -> list[Chunk]:
        """Completes the files. Raises JobError."""
        try:
            return [chunk for each in self._topics.values() for chunk in each.finish()]
        except OSError as error:
            self.discard()
            raise JobError(f"{self._directory} cannot be written: {error.strerror}; it is as it was") from error

    def discard(self) -> None:
        """Removes the files."""
        for each in self._topics.values():
            each.discard()


class _TopicOutput:
    """The output for one topic."""

    def __init__(self, target: ChunkTarget, offset: int, chance: Chance) -> None:
        self._source = Source(target.topic, target.topic_id, target.partition, target.directory, 0)
        self._writer = ChunkWriter(target, chance)
        self._offset = offset
        self._records: list[Record] = []
        self._bytes = 0

    def add(self, output: Output, now_ms: int) -> None:
        time_ms = now_ms if output.timestamp_ms is None else output.timestamp_ms
        self._records.append(Record(self._offset, time_ms, output.key, output.value, list(output.headers)))
        self._offset += 1
        self._bytes += _RECORD_BYTES + len(output.key or b"") + len(output.value or b"")
        if len(self._records) == BATCH_RECORDS_MAX or self._bytes > BATCH_BYTES_MAX:
            self._write()

    def finish(self) -> Sequence[Chunk]:
        self._write()
        return self._writer.finish().chunks

    def discard(self) -> None:
        self._writer.discard()

    def _write(self) -> None:
        if not self._records:
            return
        first = self._records[0].offset
        content = bytes(build_batch(self._records, base_offset=first))
        batch = ReadBatch(0, read_header(content), ENTRY_TYPES.index(EVENT), crc_matches=True, chunk=content)
        self._writer.add(piece_of(self._source, [LogBatch(batch)], first, self._offset))
        self._records, self._bytes = [], 0
