"""Statistics as Spark's rows would make them, for tests of what shows them."""

from tailrace.pipeline.stats.size_buckets import SizeStat, bucket_of, size_stat
from tailrace.pipeline.stats.stat_collection import result_of
from tailrace.pipeline.stats.stat_rows import (
    CodecStat,
    Compaction,
    DuplicateStat,
    KeyStat,
    PartitionStat,
    ProducerStat,
    RateSlot,
    StatsResult,
    TopicStat,
)

START_MS = 1_700_000_000_000


def sizes(*given: int) -> SizeStat:
    counts: dict[int, int] = {}
    for each in given:
        counts[bucket_of(each)] = counts.get(bucket_of(each), 0) + 1
    return size_stat(counts, sum(given), max(given, default=0))


def partition(number: int, records: int, *, stored: int | None = 500, topic: str = "orders") -> PartitionStat:
    return PartitionStat(
        topic=topic,
        partition=number,
        first=0,
        last=records - 1,
        records=records,
        batches=None if stored is None else 2,
        stored_bytes=stored,
        content_bytes=1000,
        first_ms=START_MS,
        last_ms=START_MS + 10_000,
        other_entries=0,
        duplicates=2 if number == 0 else 0,
        compaction=Compaction(keys=2, keyed=records, keyed_bytes=1000, kept_bytes=250, tombstones=1),
        peak_per_second=3.0,
        rate=[RateSlot(START_MS, 3, 300), RateSlot(START_MS + 2000, 1, 100)],
    )


def topic(name: str = "orders", *, key: str | None = "alice", stored: int | None = 500) -> TopicStat:
    return TopicStat(
        topic=name,
        partitions=[partition(0, 10, stored=stored, topic=name), partition(1, 30, stored=stored, topic=name)],
        keys=[KeyStat(key, 5, 1, 20, 900), KeyStat(None, 0, 0, 4, 80)],
        key_sizes=sizes(3, 5, 9),
        value_sizes=sizes(0, 100, 4000),
        batch_records=None if stored is None else sizes(10, 20, 10),
        batch_bytes=None if stored is None else sizes(300, 400, 300),
        codecs=[] if stored is None else [CodecStat("zstd", 4, 40, 1000)],
        producers=[ProducerStat(7, 1, 40, None if stored is None else 1000, None if stored is None else 4)],
        producers_about=1,
        without_producer=0,
        duplicates=[DuplicateStat(0, 7, 0, 3, 2, 3, 8)],
        slot_seconds=1,
    )


def result(*topics: TopicStat) -> StatsResult:
    return result_of("/data/spu-1", topics or (topic(),))
