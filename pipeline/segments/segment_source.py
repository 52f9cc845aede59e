"""The data source as Spark sees it: `spark.read.format("tailrace-segments")`, and `readStream` in the same way.

It hands the options to the readers, which work in processes of their own.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from tailrace.pipeline.jobs.shipped_code import ship_once
from tailrace.pipeline.jobs.worker_reuse import drop_zip_finders

from .segment_columns import schema_text
from .segment_options import OptionError, SegmentOptions, read_options
from .segment_readers import SegmentsReader, SegmentsStreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "tailrace-segments"


def register(spark: "SparkSession") -> None:
    """Makes the data source known to a session, whose executors get our code."""
    ship_once(spark)
    spark.dataSource.register(SegmentsDataSource)


def latest_by_key(frame: "DataFrame") -> "DataFrame":
    """Returns the last row of each key, with any number of keys. The frame needs key, partition and offset.

    The option `latestByKey` does the same in one task for each partition, without moving rows between executors.
    """
    from pyspark.sql import functions

    keys = [name for name in ("topic", "partition", "key") if name in frame.columns]
    rest = functions.struct(*(functions.col(name) for name in frame.columns))
    found = frame.groupBy(*keys).agg(functions.max_by(rest, functions.col("offset")).alias("row"))
    return found.select("row.*")


class SegmentsDataSource(DataSource):
    """The data source `tailrace-segments`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        drop_zip_finders()
        options = read_options(self.options)
        return schema_text(options.columns, header_only=options.header_only)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, is_streaming=False)
        _check_schema(schema, options)
        return SegmentsReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = read_options(self.options, is_streaming=True)
        _check_schema(schema, options)
        if hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
            from .limited_stream import LimitedStreamReader

            return LimitedStreamReader(options)
        for name, value in (
            ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
            ("maxBytesPerTrigger", options.max_bytes_per_trigger),
        ):
            if value is not None:
                raise OptionError(f"{name} needs PySpark 4.2 or newer: install it, or remove the option")
        return SegmentsStreamReader(options)


def _check_schema(schema: StructType, options: SegmentOptions) -> None:
    if tuple(schema.names) != options.columns:
        raise OptionError(f"{NAME} takes no schema: choose columns with the option columns, or with select")
