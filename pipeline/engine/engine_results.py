"""What tasks report about the events that they have handled, and the sums of it. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.trigger.replica.replica_metrics import Histogram, ReplicaMetrics
from tailrace.trigger.work import Shard

LOSSES_MAX = 5
"""How many attempts in succession may lose a transaction while no mark moves."""


class RangeResult(Struct, frozen=True):
    """What one task has done with a range of one shard."""

    topic: str
    number: int
    first: int
    """The offset of the first record that the task got."""
    mark: int
    """The offset before which everything is handled, and what it emitted is stored."""
    events: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """By kind."""
    retries: int = 0
    dead_letters: int = 0
    skipped: int = 0
    outputs: int = 0
    read_bytes: int = 0
    commits: int = 0
    failed_commits: int = 0
    fenced_commits: int = 0
    handler_counts: Sequence[int] = ()
    handler_seconds: float = 0.0
    queue_counts: Sequence[int] = ()
    queue_seconds: float = 0.0
    lost_transactions: int = 0
    problem: str = ""
    """Why the task has not handled the whole range; empty if it has."""
    lost: str = ""
    """Why a transaction was lost, so that the range must be handled again from the mark on; empty if none was."""

    @property
    def shard(self) -> Shard:
        return Shard(self.topic, self.number)


def range_result(
    shard: Shard, first: int, mark: int, metrics: ReplicaMetrics, problem: str = "", lost: str = ""
) -> RangeResult:
    """Makes the result of a range from what its task has counted."""
    return RangeResult(
        topic=shard.topic,
        number=shard.number,
        first=first,
        mark=mark,
        events=metrics.events,
        failures=dict(metrics.failures),
        retries=metrics.retries,
        dead_letters=metrics.dead_letters,
        skipped=metrics.skipped,
        outputs=metrics.outputs,
        read_bytes=metrics.read_bytes,
        commits=metrics.commits,
        failed_commits=metrics.failed_commits,
        fenced_commits=metrics.fenced_commits,
        handler_counts=metrics.handler_seconds.counts,
        handler_seconds=metrics.handler_seconds.sum,
        queue_counts=metrics.queue_seconds.counts,
        queue_seconds=metrics.queue_seconds.sum,
        lost_transactions=metrics.lost_transactions,
        problem=problem,
        lost=lost,
    )


class EngineCounts:
    """The sums of all tasks of a run."""

    def __init__(self) -> None:
        self.metrics = ReplicaMetrics()
        self.marks: dict[Shard, int] = {}
        self.problems: dict[Shard, str] = {}

    def add(self, results: Iterable[RangeResult]) -> None:
        """Adds what tasks have done."""
        metrics = self.metrics
        for each in results:
            metrics.events += each.events
            metrics.failures.update(each.failures)
            metrics.retries += each.retries
            metrics.dead_letters += each.dead_letters
            metrics.skipped += each.skipped
            metrics.outputs += each.outputs
            metrics.read_bytes += each.read_bytes
            metrics.commits += each.commits
            metrics.failed_commits += each.failed_commits
            metrics.fenced_commits += each.fenced_commits
            metrics.lost_transactions += each.lost_transactions
            _add(metrics.handler_seconds, each.handler_counts, each.handler_seconds)
            _add(metrics.queue_seconds, each.queue_counts, each.queue_seconds)
            self.marks[each.shard] = max(each.mark, self.marks.get(each.shard, each.mark))
            if each.problem:
                self.problems[each.shard] = each.problem


def _add(histogram: Histogram, counts: Sequence[int], seconds: float) -> None:
    for place, count in enumerate(counts):
        histogram.counts[place] += count
    histogram.sum += seconds


class EngineResult(JobResult, frozen=True):
    """The result of a run: counts of events, and how far each shard is."""

    positions: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """For each topic and partition, the offset before which everything is handled."""


def engine_result(
    job: str, counts: EngineCounts, verdict: str, more: Mapping[str, str | int | float], failure: str = ""
) -> EngineResult:
    """Makes the result of a run. Its verdict is `verdict` if there was no problem in a shard, and no other failure."""
    metrics = counts.metrics
    positions: dict[str, dict[int, int]] = {}
    for shard, mark in sorted(counts.marks.items()):
        positions.setdefault(shard.topic, {})[shard.number] = mark
    facts: dict[str, str | int | float | None] = {
        "events": metrics.events,
        "retries": metrics.retries,
        "dead letters": metrics.dead_letters,
        "skipped events": metrics.skipped,
        "outputs": metrics.outputs,
        **more,
        **{f"position of {shard}": mark for shard, mark in sorted(counts.marks.items())},
    }
    if counts.problems:
        shard, problem = min(counts.problems.items())
        more_problems = f", and {len(counts.problems) - 1} more" if len(counts.problems) > 1 else ""
        return EngineResult(job, False, f"shard {shard}: {problem}{more_problems}", facts, positions)
    return EngineResult(job, not failure, failure or verdict, facts, positions)
