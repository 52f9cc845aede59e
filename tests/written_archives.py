"""Archives with real files, for tests of what reads them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from log_piece_samples import NOON_MS, TOPIC_ID, piece_of_records

from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget, write_chunks
from tailrace.pipeline.archive.manifest.archive_manifest import Archive, ArchivedPartition, Chunk
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive, new_token
from tailrace.pipeline.schemas.value_schemas import ValueSchema
from tailrace.pipeline.segments.log_pieces import LogPiece
from tailrace.runtime.chance import RandomChance

ARCHIVE_ID = "b6a1d1b4-5a5d-4ac8-9a56-6a4f0c3b2e11"
NOW_MS = 1_800_000_000_000
NO_TIMES: Mapping[int, int] = {}


class SampleArchive:
    """An archive of the topic `orders` with one partition."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        create_archive(self.directory, Archive(ARCHIVE_ID, "files"))
        self.folder = ArchiveFolder(self.directory)
        self._chance = RandomChance()
        self._commit(partitions_added=[ArchivedPartition("orders", TOPIC_ID, 0, 0)])

    def add(
        self, offsets: Sequence[int], schema: ValueSchema | None = None, *, times: Mapping[int, int] = NO_TIMES
    ) -> Chunk:
        """Archives records with these offsets. `times` are timestamps by offset."""
        chunk = self._written(offsets, schema, times)
        self._commit(chunks_added=[chunk])
        return chunk

    def merge(self, chunks: Sequence[Chunk], schema: ValueSchema | None = None) -> Chunk:
        """Replaces neighbouring chunks without gaps by one."""
        merged = self._written(range(chunks[0].start, chunks[-1].end), schema)
        self._commit(chunks_added=[merged], chunks_removed=[each.id for each in chunks])
        return merged

    def rows(self, columns: Sequence[str] = ("offset", "value")) -> list[dict[str, object]]:
        """Returns the rows of all files that count, by offset."""
        import pyarrow.parquet as pq

        found: list[dict[str, object]] = []
        for file in self.folder.load().manifest.files():
            found += pq.read_table(
                f"{self.directory}/{file.path}", columns=list(columns), partitioning=None
            ).to_pylist()
        return sorted(found, key=lambda row: int(str(row["offset"])))

    def _written(
        self, offsets: Sequence[int], schema: ValueSchema | None, times: Mapping[int, int] = NO_TIMES
    ) -> Chunk:
        def read(handle: Callable[[LogPiece], None]) -> None:
            handle(piece_of_records(list(offsets), time_of=lambda offset: times.get(offset, NOON_MS + offset)))

        target = ChunkTarget(self.directory, "orders", TOPIC_ID, 0, value_schema=schema)
        (chunk,) = write_chunks(target=target, wave="", chance=self._chance, read=read).chunks
        return chunk

    def _commit(
        self,
        partitions_added: Sequence[ArchivedPartition] = (),
        chunks_added: Sequence[Chunk] = (),
        chunks_removed: Sequence[str] = (),
    ) -> None:
        committed = self.folder.commit(
            self.folder.load(),
            new_token(self._chance),
            NOW_MS,
            partitions_added=partitions_added,
            chunks_added=chunks_added,
            chunks_removed=chunks_removed,
        )
        assert committed is not None
