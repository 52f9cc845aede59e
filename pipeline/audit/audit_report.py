"""The result of an audit: as text, as JSON, as tables of Parquet, and as metrics."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tailrace.pipeline.jobs.job_results import JobResult

from .audit_verdicts import WORST_FIRST, Verdict

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_FINDINGS_SHOWN_MAX = 100


class FindingRow(Struct, frozen=True):
    """What is wrong with a copy."""

    verdict: Verdict
    first: int
    last: int
    sentence: str


class CopyRow(Struct, frozen=True):
    """The verdict on one replica or shelf."""

    topic: str
    topic_id: str
    partition: int
    spu: int | None
    """The id of the SPU that has it; None if that is unknown."""
    directory: str
    is_shelf: bool
    verdict: Verdict
    start: int
    """The first offset that was compared."""
    end: int
    """The offset up to which it was compared: its high watermark."""
    behind: int
    """How many offsets the high watermark of another replica is larger."""
    batches: int
    records: int
    bytes: int
    findings: tuple[FindingRow, ...]

    @property
    def name(self) -> str:
        where = f"SPU {self.spu}" if self.spu is not None else self.directory or "an unknown SPU"
        return f"{self.topic}/{self.partition} on {'the shelf on ' if self.is_shelf else ''}{where}"


class AuditResult(JobResult, frozen=True):
    """The result of an audit."""

    copies: tuple[CopyRow, ...] = ()

    def text(self) -> str:
        """Returns what is wrong, one line for each finding, and the facts and the verdict below."""
        lines = [
            f"{copy.name}: {each.verdict}, offsets {each.first} to {each.last}: {each.sentence}"
            for copy in self.copies
            for each in copy.findings
        ]
        if len(lines) > _FINDINGS_SHOWN_MAX:
            rest = len(lines) - _FINDINGS_SHOWN_MAX
            lines = [*lines[:_FINDINGS_SHOWN_MAX], f"and {rest} more; --output json has them all"]
        return "\n".join([*lines, *([""] if lines else []), super().text()])


def result_of(copies: Sequence[CopyRow], partitions: int) -> AuditResult:
    """Makes the result from the verdicts on all copies."""
    ordered = sorted(copies, key=lambda each: (each.topic, each.topic_id, each.partition, each.directory))
    counts = Counter(each.verdict for each in ordered)
    wrong = len({(each.topic_id, each.partition) for each in ordered if each.verdict is not Verdict.EQUAL})
    facts = {
        "partitions": partitions,
        "replicas": sum(not each.is_shelf for each in ordered),
        "shelves": sum(each.is_shelf for each in ordered),
        "equal": counts[Verdict.EQUAL],
        **{str(verdict): counts[verdict] for verdict in WORST_FIRST if counts[verdict] and verdict != Verdict.EQUAL},
        "behind": sum(each.behind > 0 and each.verdict is Verdict.EQUAL for each in ordered),
        "batches": sum(each.batches for each in ordered),
        "records": sum(each.records for each in ordered),
        "bytes": sum(each.bytes for each in ordered),
    }
    if wrong:
        findings = sum(len(each.findings) for each in ordered)
        verdict = f"copies are wrong in {wrong} of {partitions} partitions, findings: {findings}"
    else:
        verdict = "below their high watermarks, all copies of each partition are equal"
    return AuditResult("audit", not wrong, verdict, facts, tuple(ordered))


def parquet_tables(result: AuditResult) -> Iterator[tuple[str, bytes]]:
    """Yields the name and the content of the Parquet files `copies.parquet` and `findings.parquet`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts, numbers = pa.string(), pa.int64()
    place = {"topic": texts, "topicId": texts, "partition": pa.int32(), "spu": pa.int32(), "directory": texts}
    tables: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
        "copies": (
            pa.schema({
                **place, "isShelf": pa.bool_(), "verdict": texts, "start": numbers, "end": numbers, "behind": numbers,
                "batches": numbers, "records": numbers, "bytes": numbers,
            }),
            [
                (
                    *_place(copy), copy.is_shelf, str(copy.verdict), copy.start, copy.end, copy.behind, copy.batches,
                    copy.records, copy.bytes,
                )
                for copy in result.copies
            ],
        ),
        "findings": (
            pa.schema({**place, "verdict": texts, "first": numbers, "last": numbers, "sentence": texts}),
            [
                (*_place(copy), str(each.verdict), each.first, each.last, each.sentence)
                for copy in result.copies
                for each in copy.findings
            ],
        ),
    }  # fmt: skip
    for name, (schema, rows) in tables.items():
        columns = [[row[number] for row in rows] for number in range(len(schema))]
        arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
        content = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), content)
        yield f"{name}.parquet", content.getvalue().to_pybytes()


def _place(copy: CopyRow) -> tuple[str, str, int, int | None, str]:
    return copy.topic, copy.topic_id, copy.partition, copy.spu, copy.directory


def audit_families(copies: Sequence[CopyRow], at_seconds: float | None) -> Iterator["Metric"]:
    """Yields the metrics of an audit that ended at this time."""
    from prometheus_client.core import GaugeMetricFamily

    counts = Counter(each.verdict for each in copies)
    found = GaugeMetricFamily("tailrace_pipeline_audit_copies", "Copies by verdict.", labels=["verdict"])
    for verdict in WORST_FIRST:
        found.add_metric([verdict], counts[verdict])
    yield found
    by_partition: dict[tuple[str, int], list[CopyRow]] = {}
    for copy in copies:
        by_partition.setdefault((copy.topic, copy.partition), []).append(copy)
    wrong = GaugeMetricFamily(
        "tailrace_pipeline_audit_wrong_copies", "Copies of a partition with a finding.", labels=["topic", "partition"]
    )
    behind = GaugeMetricFamily(
        "tailrace_pipeline_audit_behind", "Offsets by which the last copy is behind.", labels=["topic", "partition"]
    )
    for (topic, partition), own in by_partition.items():
        wrong.add_metric([topic, str(partition)], sum(each.verdict is not Verdict.EQUAL for each in own))
        behind.add_metric([topic, str(partition)], max(each.behind for each in own))
    yield wrong
    yield behind
    size = GaugeMetricFamily("tailrace_pipeline_audit_bytes", "Bytes that were read.")
    size.add_metric([], sum(each.bytes for each in copies))
    yield size
    at = GaugeMetricFamily("tailrace_pipeline_audit_timestamp_seconds", "When the audit ended.")
    if at_seconds is not None:
        at.add_metric([], at_seconds)
    yield at
