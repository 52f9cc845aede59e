"""The queries of the statistics, in Spark's SQL. Each returns few rows, whatever the number of records and keys is.

There are two tables. `entries` has a row for each batch of a log, or for each record of an archive: topic, partition,
first, last, records, time, producer, epoch, sequence, codec, bytes, isEvent. `cells` has the counts of records by key
and by size, which one pass over the records makes.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from tailrace.pipeline.segments.segment_columns import EVENT

from .size_buckets import bucket_sql
from .stat_rows import PREVIEW_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

ENTRIES_OF_LOG = f"""
    SELECT topic, partition, offset AS first, lastOffset AS last, records, maxTimestamp AS time,
           producerId AS producer, producerEpoch AS epoch, sequence, compression AS codec, bytes,
           entryType = '{EVENT}' AS isEvent
    FROM {{rows}}"""
ENTRIES_OF_ARCHIVE = """
    SELECT topic, partition, offset AS first, offset AS last, 1 AS records, timestamp AS time,
           producerId AS producer, producerEpoch AS epoch, sequence, CAST(NULL AS STRING) AS codec,
           CAST(COALESCE(length(key), 0) + COALESCE(length(value), 0) AS INT) AS bytes, TRUE AS isEvent
    FROM {rows}"""

_CELLS = f"""
    SELECT topic, partition, key, keyBucket, valueBucket,
           grouping_id(topic, partition, key, keyBucket, valueBucket) AS kind,
           count(*) AS records, sum(keySize) AS keyBytes, sum(valueSize) AS valueBytes, max(keySize) AS keyMax,
           max(valueSize) AS valueMax,
           max_by(COALESCE(keySize, 0) + COALESCE(valueSize, 0), offset) AS lastBytes,
           max_by(IF(valueSize IS NULL, 1, 0), offset) AS lastIsTombstone
    FROM (SELECT *, {bucket_sql("keySize")} AS keyBucket, {bucket_sql("valueSize")} AS valueBucket
          FROM (SELECT topic, partition, offset, key, length(key) AS keySize, length(value) AS valueSize FROM {{rows}}))
    GROUP BY GROUPING SETS ((topic, partition, key), (topic, keyBucket), (topic, valueBucket))"""
_BY_KEY, _BY_KEY_SIZE, _BY_VALUE_SIZE = 0b00011, 0b01101, 0b01110
"""The numbers of the grouping sets: a bit is set for each column by which a row is not grouped."""

_PARTITIONS = """
    SELECT topic, partition, min(first) AS first, max(last) AS last,
           sum(IF(isEvent, records, 0)) AS records, count_if(isEvent) AS batches, sum(bytes) AS bytes,
           unix_millis(min(IF(isEvent, time, NULL))) AS firstMs, unix_millis(max(IF(isEvent, time, NULL))) AS lastMs,
           count_if(NOT isEvent) AS others
    FROM {entries} GROUP BY topic, partition"""

_SHAPES = f"""
    SELECT topic, partition, slot, codec, recordsBucket, bytesBucket,
           grouping_id(topic, partition, slot, codec, recordsBucket, bytesBucket) AS kind,
           count(*) AS batches, sum(records) AS records, sum(bytes) AS bytes, max(records) AS recordsMax,
           max(bytes) AS bytesMax
    FROM (SELECT topic, IF(concat(partition, '/', topic) IN ({{chosen}}), partition, -1) AS partition, codec, records,
                 bytes, CAST(floor(unix_millis(time) / 1000 / element_at({{widths}}, topic)) AS BIGINT) AS slot,
                 {bucket_sql("records")} AS recordsBucket, {bucket_sql("bytes")} AS bytesBucket
          FROM {{entries}} WHERE isEvent)
    GROUP BY GROUPING SETS ((topic, partition, slot), (topic, codec), (topic, recordsBucket), (topic, bytesBucket))"""
_BY_SLOT, _BY_CODEC, _BY_BATCH_RECORDS, _BY_BATCH_BYTES = 0b000111, 0b011011, 0b011101, 0b011110

_PRODUCERS = """
    SELECT topic, producer, count(DISTINCT epoch) AS epochs, sum(records) AS records, sum(bytes) AS bytes,
           count(*) AS batches
    FROM {entries} WHERE isEvent GROUP BY topic, producer"""
_PRODUCER_COUNTS = """
    SELECT topic, approx_count_distinct(IF(producer >= 0, producer, NULL)) AS producers,
           sum(IF(producer >= 0, 0, records)) AS without
    FROM {entries} WHERE isEvent GROUP BY topic"""

_SEQUENCES = 2**31
"""Sequences start again at 0 after so many records. Equal ones that lie further apart are no duplicates."""
_DUPLICATES = f"""
    SELECT topic, partition, producer, epoch, sequence, count(*) AS times, min(first) AS first, max(last) AS last,
           max(records) AS records,
           count(*) - 1 - CAST(floor((max(first) - min(first)) / {_SEQUENCES}D) AS BIGINT) AS duplicates
    FROM {{entries}} WHERE isEvent AND producer >= 0 AND sequence >= 0
    GROUP BY topic, partition, producer, epoch, sequence HAVING duplicates > 0"""


class EntryQueries:
    """Questions to a table of entries."""

    def __init__(self, spark: "SparkSession", entries: "DataFrame") -> None:
        self._spark = spark
        self._entries = entries

    def _ask(self, query: str) -> "DataFrame":
        return self._spark.sql(query, entries=self._entries)

    def partitions(self) -> list[Row]:
        return _rows(self._ask(_PARTITIONS))

    def shapes(self, widths: Mapping[str, int], chosen: Collection[tuple[str, int]]) -> dict[str, list[Row]]:
        """Returns counts by slot of time, by codec, and by records and bytes of batches.

        `widths` has the seconds of a slot for each topic. Only the partitions in `chosen` have slots of their own. All
        others of a topic are added up as partition -1.
        """
        pairs = ", ".join(f"{_text(topic)}, {width}" for topic, width in widths.items())
        names = ", ".join(_text(f"{partition}/{topic}") for topic, partition in chosen) or "''"
        found = _rows(self._ask(_filled(_SHAPES, widths=f"map({pairs})", chosen=names)))
        kinds = {"slot": _BY_SLOT, "codec": _BY_CODEC, "records": _BY_BATCH_RECORDS, "bytes": _BY_BATCH_BYTES}
        return {name: [row for row in found if row["kind"] == kind] for name, kind in kinds.items()}

    def top_producers(self, top: int) -> list[Row]:
        return _rows(_first(self._spark, self._ask(_PRODUCERS), "producer", top))

    def producer_counts(self) -> list[Row]:
        return _rows(self._ask(_PRODUCER_COUNTS))

    def duplicates(self, top: int) -> tuple[list[Row], list[Row]]:
        """Returns the number of duplicate records of each partition, and the first duplicates of each topic."""
        found = self._ask(_DUPLICATES)
        counts = self._spark.sql(
            "SELECT topic, partition, sum(duplicates * records) AS duplicates FROM {found} GROUP BY ALL", found=found
        )
        first = self._spark.sql(
            "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY topic ORDER BY first, partition) AS place "
            f"FROM {{found}}) WHERE place <= {top} ORDER BY topic, place",
            found=found,
        )
        counted = _rows(counts)
        return counted, _rows(first) if counted else []


class CellQueries:
    """Questions to the table of counts by key and by size."""

    def __init__(self, spark: "SparkSession", cells: "DataFrame") -> None:
        self._spark = spark
        self._cells = cells

    def compaction(self) -> list[Row]:
        """Returns what compaction would keep in each partition, and all records with their bytes of keys and values."""
        return _rows(
            self._spark.sql(
                "SELECT topic, partition, sum(records) AS records, count(key) AS keys, "
                "sum(IF(key IS NULL, 0, records)) AS keyed, "
                "sum(COALESCE(keyBytes, 0) + COALESCE(valueBytes, 0)) AS bytes, "
                "sum(IF(key IS NULL, 0, COALESCE(keyBytes, 0) + COALESCE(valueBytes, 0))) AS keyedBytes, "
                "sum(IF(key IS NULL, 0, lastBytes)) AS keptBytes, "
                "sum(IF(key IS NULL, 0, lastIsTombstone)) AS tombstones "
                f"FROM {{cells}} WHERE kind = {_BY_KEY} GROUP BY topic, partition",
                cells=self._cells,
            )
        )

    def top_keys(self, top: int) -> list[Row]:
        """Returns the beginnings of the most frequent keys of each topic."""
        keys = self._spark.sql(
            f"SELECT topic, partition, substring(key, 1, {PREVIEW_BYTES}) AS key, COALESCE(length(key), 0) AS keySize, "
            "records, COALESCE(keyBytes, 0) + COALESCE(valueBytes, 0) AS bytes "
            f"FROM {{cells}} WHERE kind = {_BY_KEY}",
            cells=self._cells,
        )
        return _rows(_first(self._spark, keys, "partition, key", top))

    def sizes(self) -> dict[str, list[Row]]:
        """Returns counts by the size of the key and of the value."""
        found = _rows(
            self._spark.sql(
                "SELECT topic, kind, COALESCE(keyBucket, valueBucket) AS bucket, records, keyMax, valueMax, keyBytes, "
                f"valueBytes FROM {{cells}} WHERE kind <> {_BY_KEY}",
                cells=self._cells,
            )
        )
        kinds = {"key": _BY_KEY_SIZE, "value": _BY_VALUE_SIZE}
        return {name: [row for row in found if row["kind"] == kind] for name, kind in kinds.items()}


def entries_of(spark: "SparkSession", rows: "DataFrame", *, is_archive: bool) -> "DataFrame":
    """Returns the table of entries."""
    return spark.sql(ENTRIES_OF_ARCHIVE if is_archive else ENTRIES_OF_LOG, rows=rows)


def cells_of(spark: "SparkSession", rows: "DataFrame") -> "DataFrame":
    """Returns the table of counts by key and by size."""
    return spark.sql(_CELLS, rows=rows)


def _first(spark: "SparkSession", rows: "DataFrame", order: str, top: int) -> "DataFrame":
    """Returns the rows with the most records of each topic."""
    return spark.sql(
        f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY topic ORDER BY records DESC, {order}) AS place "
        f"FROM {{rows}}) WHERE place <= {top} ORDER BY topic, place",
        rows=rows,
    )


def _filled(query: str, **texts: str) -> str:
    """Puts SQL into a query whose other places Spark fills."""
    for name, text in texts.items():
        query = query.replace(f"{{{name}}}", text)
    return query


def _text(content: str) -> str:
    """Returns a text of Spark's SQL. Names of topics have no quotes, backslashes or braces; others are refused."""
    if not set(content).isdisjoint("'\\{}"):
        raise ValueError(f"{content!r} is no name of a topic")
    return f"'{content}'"


def _rows(frame: "DataFrame") -> list[Row]:
    return [row.asDict() for row in frame.collect()]
