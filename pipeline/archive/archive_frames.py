"""An archive as a DataFrame of Spark, with the columns of `tailrace-segments` and the date."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.segment_columns import RECORD_COLUMNS, schema_text

from .archive_folder import ArchiveFolder, StoreOf
from .archive_layout import DATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATE = "date"
"""The column of the UTC date of a record's timestamp, by which Spark can skip files."""


def read_archive(
    spark: "SparkSession", directory: str, *, topics: Sequence[str] | None = None, store_of: StoreOf | None = None
) -> "DataFrame":
    """Returns the records of an archive as it is now: all of them, or those of some topics.

    The frame names the files that count, so it stays the same while others add to the archive. It may fail after
    chunks were merged and `archive clean` removed the old files. Raises JobError and ManifestError.
    """
    manifest = ArchiveFolder(directory, store_of).load().manifest
    known = {each.topic for each in manifest.partitions}
    for topic in topics or ():
        if topic not in known:
            raise JobError(f"the archive {directory} has no topic {topic}: it has {', '.join(sorted(known)) or 'none'}")
    schema = f"{schema_text(tuple(RECORD_COLUMNS), header_only=False)}, {DATE} date"
    frame = spark.createDataFrame([], schema)
    for topic in sorted(known if topics is None else set(topics)):
        paths = [
            f"{directory}/{file.path}" for chunk in manifest.chunks if chunk.topic == topic for file in chunk.files
        ]
        if paths:
            reader = spark.read.schema(schema).option("basePath", f"{directory}/{DATA}/{topic}")
            frame = frame.unionByName(reader.parquet(*paths))
    return frame
