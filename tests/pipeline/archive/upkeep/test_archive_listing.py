from pathlib import Path

from archive_samples import ARCHIVE, archived_partition, chunk

from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive
from tailrace.pipeline.archive.upkeep.archive_listing import list_archive
from tailrace.pipeline.segments.log_gaps import Gap


def test_each_partition_is_listed(tmp_path: Path) -> None:
    create_archive(str(tmp_path), ARCHIVE)
    folder = ArchiveFolder(str(tmp_path))
    chunks = [chunk(5, 10), chunk(10, 20, gaps=[Gap(12, 13, "hole")])]
    joins = [archived_partition(start=5), archived_partition(1)]
    folder.commit(folder.load(), "00000000", 0, partitions_added=joins, chunks_added=chunks)
    listing = list_archive(folder)
    assert (listing.archive, listing.commits) == (ARCHIVE, 1)
    found = [(each.partition, each.start, each.position, each.records, each.files) for each in listing.partitions]
    assert found == [(0, 5, 20, 13, 2), (1, 0, 0, 0, 0)]
