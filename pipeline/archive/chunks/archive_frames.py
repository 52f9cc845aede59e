"""An archive as a DataFrame of Spark, with the columns of `tailrace-segments` and the date."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.pipeline.archive.manifest.archive_layout import DATA
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, StoreOf
from tailrace.pipeline.jobs.job_errors import WrongUsageError
from tailrace.pipeline.schemas.value_schemas import VALUE_COLUMNS
from tailrace.pipeline.segments.segment_columns import RECORD_COLUMNS, schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

DATE = "date"
"""The column of the UTC date of a record's timestamp, by which Spark can skip files."""
_EXACT = {"__globPaths__": "false"}
"""The option of Spark that takes paths as they are, also with the characters of patterns, such as `[`."""


def read_archive(
    spark: "SparkSession", directory: str, *, topics: Sequence[str] | None = None, store_of: StoreOf | None = None
) -> "DataFrame":
    """Returns the records of an archive as it is now: all of them, or those of some topics.

    The frame names the files that count, so it stays the same while others add to the archive. It may fail after
    chunks were merged and `archive clean` removed the old files. If the newest file of a topic has columns of its
    values, the frame has them too. Raises JobError and ManifestError.
    """
    folder = ArchiveFolder(directory, store_of)
    directory, manifest = folder.directory, folder.load().manifest
    known = {each.topic for each in manifest.partitions}
    for topic in topics or ():
        if topic not in known:
            raise WrongUsageError(
                f"the archive {directory} has no topic {topic}: it has {', '.join(sorted(known)) or 'none'}"
            )
    schema = f"{schema_text(tuple(RECORD_COLUMNS), header_only=False)}, {DATE} date"
    frame = spark.createDataFrame([], schema)
    for topic in sorted(known if topics is None else set(topics)):
        paths = [
            f"{directory}/{file.path}" for chunk in manifest.chunks if chunk.topic == topic for file in chunk.files
        ]
        if paths:
            wanted = f"{schema}{_value_columns(spark, paths[-1])}"
            reader = spark.read.options(**_EXACT).schema(wanted).option("basePath", f"{directory}/{DATA}/{topic}")
            frame = frame.unionByName(reader.parquet(*paths), allowMissingColumns=True)
    return frame


def _value_columns(spark: "SparkSession", path: str) -> str:
    """Returns the columns in which a file has decoded values, in Spark's language."""
    try:
        names = pq.read_schema(path).names
    except (OSError, pa.ArrowException):
        return ""  # reading it tells what is wrong
    if not set(VALUE_COLUMNS) & set(names):
        return ""
    fields = spark.read.options(**_EXACT).parquet(path).schema.fields
    return "".join(f", {each.name} {_ddl(each.dataType)}" for each in fields if each.name in VALUE_COLUMNS)


def _ddl(kind: "DataType") -> str:
    """Returns a type in Spark's language, with its names in quotes."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        fields = (f"`{each.name.replace('`', '``')}`: {_ddl(each.dataType)}" for each in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_ddl(kind.keyType)}, {_ddl(kind.valueType)}>"
    return kind.simpleString()
