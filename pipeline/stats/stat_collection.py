"""Computes the statistics of streams: `stats(spark, segments=["/var/lib/tailrace/spu-1"])`.

One pass over the records and one over the headers of batches are enough. What they yield is counted further from the
disks of the executors, so memory does not grow with the data.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from tailrace.pipeline.jobs.job_errors import JobError, reason_of_job
from tailrace.pipeline.jobs.job_progress import Report
from tailrace.pipeline.jobs.shipped_code import ship_once
from tailrace.pipeline.jobs.spark_session import is_connect

from .size_buckets import SizeStat, size_stat, slot_seconds
from .stat_queries import CellQueries, EntryQueries, Row, cells_of
from .stat_rows import (
    TOP,
    CodecStat,
    Compaction,
    DuplicateStat,
    KeyStat,
    PartitionStat,
    ProducerStat,
    RateSlot,
    StatsResult,
    TopicStat,
    hottest_of,
    key_text,
    mean_rate,
)
from .stat_sources import StatSource, source_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHOSEN_TOPICS_MAX = 50
"""How many topics have the rate over time of single partitions."""
_STEPS = 8
_TASKS_PER_CORE = 3
_OTHERS = -1
_Place = tuple[str, int]
T = TypeVar("T")


def stats(
    spark: "SparkSession",
    *,
    segments: Sequence[str] = (),
    archive: str | None = None,
    topics: Sequence[str] = (),
    top: int = TOP,
    report: Report | None = None,
) -> StatsResult:
    """Computes the statistics of the topics in data directories of SPUs. Raises JobError.

    `topics` empty stands for all topics that are not internal. A log is read up to its high watermark, also while its
    SPU runs.
    """
    return counted(spark, source_of(segments=segments, archive=archive, topics=topics), top=top, report=report)


def counted(spark: "SparkSession", source: StatSource, *, top: int = TOP, report: Report | None = None) -> StatsResult:
    """Computes the statistics of a source. Raises JobError."""
    ship_once(spark)
    source.use(spark)
    try:
        return _Collection(spark, source, top, _Steps(report)).result()
    except Exception as error:
        raise JobError(f"{source.name} cannot be counted: {reason_of_job(error)}") from error


class _Steps:
    """Counts the steps that are done."""

    def __init__(self, report: Report | None) -> None:
        self._report = report
        self._done = 0

    def after(self, value: T) -> T:
        """Counts the step that computed the value, and returns the value."""
        self._done += 1
        if self._report is not None:
            self._report(self._done, _STEPS)
        return value


class _Found(Struct, frozen=True):
    """The rows of all queries."""

    partitions: list[Row]
    widths: dict[str, int]
    shapes: dict[str, list[Row]]
    producers: list[Row]
    producer_counts: list[Row]
    duplicate_counts: list[Row]
    duplicates: list[Row]
    compaction: list[Row]
    keys: list[Row]
    sizes: dict[str, list[Row]]


class _Collection:
    """Asks Spark, and makes values of its rows."""

    def __init__(self, spark: "SparkSession", source: StatSource, top: int, steps: _Steps) -> None:
        self._spark = spark
        self._source = source
        self._top = top
        self._steps = steps

    def result(self) -> StatsResult:
        found = self._ask()
        by_topic = defaultdict(list)
        for each in _partition_stats(found, is_archive=self._source.is_archive):
            by_topic[each.topic].append(each)
        topics = [
            _topic_stat(topic, each, found, is_archive=self._source.is_archive) for topic, each in by_topic.items()
        ]
        topics.sort(key=lambda each: (-each.weight, each.topic))
        return result_of(self._source.name, topics)

    def _in_few_tasks(self, frame: "DataFrame") -> "DataFrame":
        """Returns the frame in a few tasks for each core. A log has a task for each segment, and many are tiny."""
        if is_connect(self._spark):
            return frame
        return frame.coalesce(_TASKS_PER_CORE * int(self._spark.sparkContext.defaultParallelism))

    def _ask(self) -> _Found:
        from pyspark import StorageLevel

        entries = self._source.entries(self._spark)
        if not self._source.is_archive:
            entries = entries.persist(StorageLevel.DISK_ONLY)
        try:
            asked = EntryQueries(self._spark, self._in_few_tasks(entries))
            partitions = self._steps.after(asked.partitions())
            widths, chosen = _widths(partitions), _hottest(partitions, self._top)
            shapes = self._steps.after(asked.shapes(widths, chosen) if widths else {})
            producers = self._steps.after(asked.top_producers(self._top))
            producer_counts = self._steps.after(asked.producer_counts())
            counts, duplicates = self._steps.after(asked.duplicates(self._top))
        finally:
            entries.unpersist()
        cells = cells_of(self._spark, self._source.records(self._spark, _ends(partitions))).persist(
            StorageLevel.DISK_ONLY
        )
        try:
            cell_queries = CellQueries(self._spark, self._in_few_tasks(cells))
            compaction = self._steps.after(cell_queries.compaction())
            keys = self._steps.after(cell_queries.top_keys(self._top))
            sizes = self._steps.after(cell_queries.sizes())
        finally:
            cells.unpersist()
        return _Found(
            partitions, widths, shapes, producers, producer_counts, counts, duplicates, compaction, keys, sizes
        )


def result_of(source: str, topics: Sequence[TopicStat]) -> StatsResult:
    """Returns the result with the facts that one looks at first."""
    records = sum(each.records for each in topics)
    stored = [each.stored_bytes for each in topics if each.stored_bytes is not None]
    duplicates = sum(each.duplicate_count for each in topics)
    compaction = sum((each.compaction for each in topics), Compaction())
    hot = max((each for topic in topics for each in topic.partitions), key=lambda each: each.weight, default=None)
    hottest = hottest_of(topics)
    facts: dict[str, str | int | float | None] = {
        "topics": len(topics),
        "partitions": sum(len(each.partitions) for each in topics),
        "records": records,
        "bytes of keys and values": sum(each.content_bytes for each in topics),
        "stored bytes": sum(stored) if stored else None,
        "largest partition": None if hot is None else f"{hot.topic}/{hot.partition}",
        "most frequent key": None if hottest is None else _hottest_text(hottest),
        "records that compaction would delete": compaction.saved,
        "bytes that compaction would delete": compaction.saved_bytes,
        "duplicate records": duplicates,
    }
    number = "no duplicate" if not duplicates else "1 duplicate" if duplicates == 1 else f"{duplicates} duplicates"
    verdict = f"{records} record{'' if records == 1 else 's'} of {source} are counted, {number} among them"
    return StatsResult(job="stats", is_ok=True, verdict=verdict, facts=facts, source=source, topics=list(topics))


def _hottest_text(topic: TopicStat) -> str:
    key = topic.hottest
    assert key is not None
    return (
        f"{key.name} in {topic.topic}/{key.partition}, {100 * key.records / max(topic.records, 1):.1f} % of its topic"
    )


def _ends(partitions: Iterable[Row]) -> dict[str, dict[int, int]]:
    """Returns the offset after the last one that was counted, by topic and partition."""
    ends: dict[str, dict[int, int]] = defaultdict(dict)
    for row in partitions:
        ends[row["topic"]][row["partition"]] = row["last"] + 1
    return ends


def _widths(partitions: Iterable[Row]) -> dict[str, int]:
    """Returns the seconds of a slot of each topic. A topic without times has slots of a second."""
    spans: dict[str, list[int]] = defaultdict(list)
    for row in partitions:
        spans[row["topic"]] += [each for each in (row["firstMs"], row["lastMs"]) if each is not None]
    return {topic: slot_seconds(min(span, default=0), max(span, default=0)) for topic, span in spans.items()}


def _hottest(partitions: Sequence[Row], top: int) -> list[_Place]:
    """Returns the largest partitions of the largest topics."""
    by_topic: dict[str, list[Row]] = defaultdict(list)
    for row in partitions:
        by_topic[row["topic"]].append(row)
    weights = {topic: sum(row["bytes"] or 0 for row in rows) for topic, rows in by_topic.items()}
    topics = sorted(weights, key=lambda topic: (-weights[topic], topic))[:_CHOSEN_TOPICS_MAX]
    return [
        (topic, row["partition"])
        for topic in topics
        for row in sorted(by_topic[topic], key=lambda row: (-(row["bytes"] or 0), row["partition"]))[:top]
    ]


def _partition_stats(found: _Found, *, is_archive: bool) -> list[PartitionStat]:
    compaction = {(row["topic"], row["partition"]): row for row in found.compaction}
    duplicates = {(row["topic"], row["partition"]): row["duplicates"] for row in found.duplicate_counts}
    slots: dict[_Place, list[Row]] = defaultdict(list)
    for row in found.shapes.get("slot", []):
        if row["slot"] is not None:
            slots[row["topic"], row["partition"]].append(row)
    stats = []
    for row in sorted(found.partitions, key=lambda row: (row["topic"], row["partition"])):
        place = (row["topic"], row["partition"])
        kept, width = compaction.get(place), found.widths[row["topic"]]
        # The first batch of a log may begin with deleted records, which its header counts.
        records = kept["records"] if kept else 0
        rate = _rate(slots.get(place, []), width)
        stats.append(
            PartitionStat(
                topic=row["topic"],
                partition=row["partition"],
                first=row["first"],
                last=row["last"],
                records=records,
                batches=None if is_archive else row["batches"],
                stored_bytes=None if is_archive else row["bytes"],
                content_bytes=kept["bytes"] if kept else 0,
                first_ms=row["firstMs"],
                last_ms=row["lastMs"],
                other_entries=row["others"],
                duplicates=duplicates.get(place, 0),
                compaction=_compaction(kept),
                peak_per_second=peak_rate(rate, width, mean_rate(records, row["firstMs"], row["lastMs"])),
                rate=rate,
            )
        )
    return stats


def peak_rate(rate: Sequence[RateSlot], width: int, mean: float | None) -> float | None:
    """Returns the highest rate: that of the busiest slot, or the mean if a burst lies in two slots."""
    return max(max(each.records for each in rate) / width, mean or 0.0) if rate else None


def _rate(rows: Iterable[Row], width: int) -> list[RateSlot]:
    ordered = sorted(rows, key=lambda row: int(row["slot"]))
    return [RateSlot(row["slot"] * width * 1000, row["records"], row["bytes"] or 0) for row in ordered]


def _compaction(row: Row | None) -> Compaction:
    if row is None:
        return Compaction()
    return Compaction(row["keys"], row["keyed"], row["keyedBytes"], row["keptBytes"], row["tombstones"])


def _topic_stat(topic: str, partitions: list[PartitionStat], found: _Found, *, is_archive: bool) -> TopicStat:
    def of(rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows if row["topic"] == topic]

    counts = of(found.producer_counts)
    batch_records, batch_bytes = (of(found.shapes.get(name, [])) for name in ("records", "bytes"))
    return TopicStat(
        topic=topic,
        partitions=partitions,
        keys=[
            KeyStat(
                None if row["key"] is None else key_text(bytes(row["key"]), row["keySize"]),
                row["keySize"],
                row["partition"],
                row["records"],
                row["bytes"],
            )
            for row in of(found.keys)
        ],
        key_sizes=_sizes(of(found.sizes["key"]), "bucket", "records", "keyBytes", "keyMax"),
        value_sizes=_sizes(of(found.sizes["value"]), "bucket", "records", "valueBytes", "valueMax"),
        batch_records=None
        if is_archive
        else _sizes(batch_records, "recordsBucket", "batches", "records", "recordsMax"),
        batch_bytes=None if is_archive else _sizes(batch_bytes, "bytesBucket", "batches", "bytes", "bytesMax"),
        codecs=[]
        if is_archive
        else [
            CodecStat(row["codec"], row["batches"], row["records"], row["bytes"])
            for row in sorted(of(found.shapes.get("codec", [])), key=lambda row: -int(row["bytes"]))
        ],
        producers=[
            ProducerStat(
                row["producer"],
                row["epochs"],
                row["records"],
                None if is_archive else row["bytes"],
                None if is_archive else row["batches"],
            )
            for row in of(found.producers)
        ],
        producers_about=sum(row["producers"] for row in counts),
        without_producer=sum(row["without"] for row in counts),
        duplicates=[
            DuplicateStat(
                row["partition"],
                row["producer"],
                row["epoch"],
                row["sequence"],
                row["times"],
                row["first"],
                row["last"],
            )
            for row in of(found.duplicates)
        ],
        slot_seconds=found.widths[topic],
    )


def _sizes(rows: Sequence[Row], bucket: str, count: str, total: str, largest: str) -> SizeStat:
    return size_stat(
        {row[bucket]: row[count] for row in rows},
        sum(row[total] or 0 for row in rows),
        max((row[largest] or 0 for row in rows), default=0),
    )
