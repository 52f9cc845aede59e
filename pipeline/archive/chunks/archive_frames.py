"""An archive as a DataFrame of Spark, with the columns of `tailrace-segments` and the date."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.pipeline.archive.manifest.archive_layout import DATA
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, StoreOf
from tailrace.pipeline.jobs.job_errors import WrongUsageError
from tailrace.pipeline.schemas.value_schemas import DATA as VALUE_DATA
from tailrace.pipeline.schemas.value_schemas import VALUE_COLUMNS
from tailrace.pipeline.segments.segment_columns import RECORD_COLUMNS, schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

DATE = "date"
"""The column of the UTC date of a record's timestamp, by which Spark can skip files."""
_EXACT = {"__globPaths__": "false"}
"""The option of Spark that takes paths as they are, also with the characters of patterns, such as `[`."""


def read_archive(
    spark: "SparkSession", directory: str, *, topics: Sequence[str] | None = None, store_of: StoreOf | None = None
) -> "DataFrame":
    """Returns the records of an archive as it is now: all of them, or those of some topics.

    The frame names the files that count, so it stays the same while others add to the archive. It may fail after
    chunks were merged and `archive clean` removed the old files. If the newest files of the partitions of a topic have
    columns of its values, the frame has all of them. Raises JobError and ManifestError.
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
        chunks = [chunk for chunk in manifest.chunks if chunk.topic == topic and chunk.files]
        if paths := [f"{directory}/{file.path}" for chunk in chunks for file in chunk.files]:
            newest = {chunk.key: f"{directory}/{chunk.files[0].path}" for chunk in chunks}  # in the order of offsets
            wanted = f"{schema}{_value_columns(spark, list(newest.values()))}"
            reader = spark.read.options(**_EXACT).schema(wanted).option("basePath", f"{directory}/{DATA}/{topic}")
            frame = frame.unionByName(reader.parquet(*paths), allowMissingColumns=True)
    return frame


def _value_columns(spark: "SparkSession", paths: Sequence[str]) -> str:
    """Returns the columns in which these files have decoded values, in Spark's language.

    If files do not agree about a type, it is that of the file that was written last.
    """
    examples: dict[Any, str] = {}
    """A file for each type of values, those that were written last at the end."""
    for _, path in sorted((_modified(path), path) for path in paths):
        kind = _stored_type(path)
        if kind is not None:
            examples.pop(kind, None)
            examples[kind] = path
    columns: StructType | None = None
    for path in examples.values():
        found = spark.read.options(**_EXACT).parquet(path).select(*VALUE_COLUMNS).schema
        columns = found if columns is None else cast("StructType", together(columns, found))
    return "" if columns is None else "".join(f", {each.name} {_ddl(each.dataType)}" for each in columns.fields)


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0  # reading it tells what is wrong


def _stored_type(path: str) -> Any:
    """Returns the type of the values that a file has; None if it has raw values only."""
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return None  # reading it tells what is wrong
    return schema.field(VALUE_DATA).type if set(VALUE_COLUMNS) <= set(schema.names) else None


def together(older: "DataType", newer: "DataType") -> "DataType":
    """Returns the type with the fields of both types of Spark, also of inner structs."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(older, StructType) and isinstance(newer, StructType):
        before = {each.name: each for each in older.fields}
        fields = [
            StructField(each.name, together(before.pop(each.name).dataType, each.dataType))
            if each.name in before
            else each
            for each in newer.fields
        ]
        return StructType([*fields, *before.values()])
    if isinstance(older, ArrayType) and isinstance(newer, ArrayType):
        return ArrayType(together(older.elementType, newer.elementType))
    if isinstance(older, MapType) and isinstance(newer, MapType):
        return MapType(newer.keyType, together(older.valueType, newer.valueType))
    return newer


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
