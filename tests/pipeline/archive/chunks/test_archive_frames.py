"""Tests which topics can be read; compat_tests/spark reads them with Spark."""

from pathlib import Path

import pytest
from archive_samples import ARCHIVE, archived_partition

from tailrace.pipeline.archive.chunks.archive_frames import read_archive, together
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive
from tailrace.pipeline.jobs.job_errors import JobError


def test_a_topic_that_the_archive_does_not_have_is_named(tmp_path: Path) -> None:
    create_archive(str(tmp_path), ARCHIVE)
    folder = ArchiveFolder(str(tmp_path))
    with pytest.raises(JobError, match="has no topic orders: it has none"):
        read_archive(None, str(tmp_path), topics=["orders"])  # type: ignore[arg-type]
    folder.commit(folder.load(), "00000000", 0, partitions_added=[archived_partition()])
    with pytest.raises(JobError, match="has no topic events: it has orders"):
        read_archive(None, str(tmp_path), topics=["events"])  # type: ignore[arg-type]


def test_two_types_of_values_have_the_fields_of_both() -> None:
    types = pytest.importorskip("pyspark.sql.types")

    def struct(**fields: object) -> object:
        return types.StructType([types.StructField(name, kind) for name, kind in fields.items()])

    number, text = types.LongType(), types.StringType()
    older = struct(gone=number, id=number, inner=struct(a=number), many=types.ArrayType(struct(a=text)))
    newer = struct(
        id=text, inner=struct(b=text), many=types.ArrayType(struct(b=text)), each=types.MapType(text, number)
    )
    assert together(older, newer) == struct(
        id=text,
        inner=struct(b=text, a=number),
        many=types.ArrayType(struct(b=text, a=text)),
        each=types.MapType(text, number),
        gone=number,
    )
