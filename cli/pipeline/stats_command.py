"""`tailrace pipeline stats`: shows key skew, sizes, hot partitions, what compaction would save, and duplicates.

It runs on Spark. Exit status: 0 done, 1 refused, 2 wrong usage or a directory without logs, 3 the SC that has the head
of the archive is unreachable.
"""

import argparse
from collections.abc import Iterator

from tailrace.cli.output.printing import size_text
from tailrace.cli.output.tables import fields, table
from tailrace.pipeline.jobs.job_status import EXPECTED
from tailrace.pipeline.stats.size_buckets import SizeStat
from tailrace.pipeline.stats.stat_rows import StatsResult, TopicStat
from tailrace.pipeline.stats.stats_job import configure as configure_job
from tailrace.pipeline.stats.stats_job import run_stats

from .job_output import failed, job_progress, show

_NAME = "pipeline stats"
_KEYS_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    configure_job(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the job on Spark, prints its tables, and returns the exit status."""
    progress = job_progress("counting", "tasks")
    try:
        result = run_stats(arguments, progress.move_to)
    except EXPECTED as error:
        return failed(_NAME, error)
    finally:
        progress.clear()
    show(result.json() if arguments.output == "json" else "\n\n".join(_tables(result)))
    return result.status


def _tables(result: StatsResult) -> Iterator[str]:
    """Yields the tables: one of all topics, and some of each."""
    yield table(
        ("TOPIC", "PARTITIONS", "RECORDS", "CONTENT", "STORED", "SKEW", "KEYS", "SAVES", "PRODUCERS", "DUPLICATES"),
        [
            (
                each.topic,
                len(each.partitions),
                each.records,
                size_text(each.content_bytes),
                None if each.stored_bytes is None else size_text(each.stored_bytes),
                f"{each.skew:.2f}",
                each.compaction.keys,
                _share(each.compaction.saved_bytes, each.content_bytes),
                each.producers_about,
                each.duplicate_count,
            )
            for each in result.topics
        ],
    )
    for topic in result.topics:
        yield from _topic_tables(topic)
    yield f"ok: {result.verdict}"


def _topic_tables(topic: TopicStat) -> Iterator[str]:
    yield f"{topic.topic}\n" + table(
        ("PARTITION", "RECORDS", "SHARE", "STORED", "RATE", "PEAK", "KEYS", "DELETABLE", "SAVES", "DUPLICATES"),
        [
            (
                each.partition,
                each.records,
                _share(each.weight, topic.weight),
                None if each.stored_bytes is None else size_text(each.stored_bytes),
                _rate(each.per_second),
                _rate(each.peak_per_second),
                each.compaction.keys,
                each.compaction.saved,
                _share(each.compaction.saved_bytes, each.content_bytes),
                each.duplicates,
            )
            for each in sorted(topic.partitions, key=lambda each: (-each.weight, each.partition))
        ],
    )
    if topic.keys:
        yield table(
            ("KEY", "PARTITION", "RECORDS", "SHARE", "BYTES"),
            [
                (
                    each.name,
                    each.partition,
                    each.records,
                    _share(each.records, topic.records),
                    size_text(each.bytes),
                )
                for each in topic.keys[:_KEYS_SHOWN]
            ],
        )
    sizes = [("Key bytes", topic.key_sizes), ("Value bytes", topic.value_sizes)]
    sizes += [("Records of a batch", topic.batch_records)] if topic.batch_records is not None else []
    sizes += [("Bytes of a batch", topic.batch_bytes)] if topic.batch_bytes is not None else []
    yield table(
        ("SIZE", "COUNT", "NULL", "MEAN", "P50", "P90", "P99", "LARGEST"),
        [_size_row(name, each) for name, each in sizes],
    )
    ratio = topic.compression_ratio
    pairs = [
        ("Compression", ", ".join(f"{each.codec} {_share(each.bytes, topic.weight)}" for each in topic.codecs)),
        ("Ratio", None if ratio is None else f"{ratio:.2f} bytes of keys and values in a stored byte"),
        ("No producer id", topic.without_producer or None),
    ]
    if any(value for _, value in pairs):
        yield fields(pairs)
    if topic.duplicates:
        yield table(
            ("DUPLICATE", "PRODUCER", "EPOCH", "SEQUENCE", "TIMES", "FIRST", "LAST"),
            [
                (f"{topic.topic}/{each.partition}", each.producer_id, each.producer_epoch, each.sequence, each.times,
                 each.first, each.last)
                for each in topic.duplicates
            ],
        )  # fmt: skip


def _size_row(name: str, size: SizeStat) -> tuple[object, ...]:
    return (name, size.count, size.nulls, f"{size.mean:.1f}", size.p50, size.p90, size.p99, size.largest)


def _share(part: int, whole: int) -> str | None:
    return f"{100 * part / whole:.1f} %" if whole else None


def _rate(rate: float | None) -> str | None:
    if rate is None:
        return None
    return f"{rate:.0f}/s" if rate >= 100 else f"{rate:.3g}/s"
