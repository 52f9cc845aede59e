"""Lists what an archive has, by partition, from its manifest alone."""

from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_manifest import Archive, Chunk, PartitionKey
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder


class ListedPartition(Struct, frozen=True):
    """What an archive has of a partition."""

    topic: str
    topic_id: str
    partition: int
    start: int
    """The offset with which the archive begins."""
    position: int
    """The offset with which the next run goes on."""
    records: int
    chunks: int
    files: int
    bytes: int


class ArchiveListing(Struct, frozen=True):
    """What an archive has."""

    archive: Archive
    commits: int
    partitions: tuple[ListedPartition, ...]


def list_archive(folder: ArchiveFolder) -> ArchiveListing:
    """Reads the manifest. Raises JobError and ManifestError."""
    loaded = folder.load()
    positions = loaded.manifest.positions()
    chunks: dict[PartitionKey, list[Chunk]] = {}
    for chunk in loaded.manifest.chunks:
        chunks.setdefault(chunk.key, []).append(chunk)
    partitions = []
    for each in loaded.manifest.partitions:
        found = chunks.get(each.key, [])
        files = [file for chunk in found for file in chunk.files]
        partitions.append(
            ListedPartition(
                each.topic,
                each.topic_id,
                each.partition,
                each.start,
                positions[each.topic_id][each.partition],
                sum(chunk.records for chunk in found),
                len(found),
                len(files),
                sum(file.bytes for file in files),
            )
        )
    return ArchiveListing(folder.archive, loaded.seq, tuple(partitions))
