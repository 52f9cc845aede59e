"""Decides how many replicas a trigger should have, between its limits, from the lag that the replicas report.

More replicas are started if records wait for too long: twice as many at a time, so that few steps are needed. One is
stopped if no record has waited for a while, and the others have enough time for its work. Between two changes there is
a pause in which the effect of the first one shows.
"""

from collections.abc import Collection

from msgspec import Struct

from tailrace.cluster.stream_state.replica_report import ReplicaReport

LATE_SECONDS = 10.0
"""Records that have waited for longer than this are late."""
PROMPT_SECONDS = 2.0
"""If the oldest record has waited for less than this, all records are prompt."""
LATE_FOR_SECONDS = 10.0
"""How long records must be late until more replicas are started."""
PROMPT_FOR_SECONDS = 60.0
"""How long records must be prompt until a replica is stopped."""
PAUSE_SECONDS = 20.0
"""The pause between two changes."""
BUSY_MAX = 0.7
"""The share of their time that the workers of the other replicas may be busy after a replica was stopped."""


class ReplicaLimits(Struct, frozen=True):
    """The smallest and the largest number of replicas, and the number of shards among which they are divided."""

    least: int
    most: int
    shards: int

    @property
    def useful(self) -> int:
        """The largest number of replicas that have something to do."""
        return max(self.least, min(self.most, self.shards))


class ReplicaCount(Struct, frozen=True):
    """A decided number of replicas, and why it is not another one."""

    replicas: int
    reason: str


class LagHistory(Struct):
    """What the replicas of one trigger have reported since the last change of their number."""

    changed_at: float
    late_since: float | None = None
    prompt_since: float | None = None
    busy: float = 0.0
    """The sum of the shares of busy workers that were reported since `prompt_since`."""
    reports: int = 0

    def note(self, reports: Collection[ReplicaReport], now: float) -> None:
        """Notes the newest reports of all replicas."""
        lag_seconds = max((shard.lag_seconds for report in reports for shard in report.shards if shard.lag), default=0)
        if lag_seconds <= LATE_SECONDS:
            self.late_since = None
        elif self.late_since is None:
            self.late_since = now
        if lag_seconds >= PROMPT_SECONDS:
            self.prompt_since = None
            return
        if self.prompt_since is None:
            self.prompt_since, self.busy, self.reports = now, 0.0, 0
        workers = sum(report.workers for report in reports)
        self.busy += sum(report.busy_workers for report in reports) / workers if workers else 0.0
        self.reports += 1

    def decide(self, now: float, replicas: int, limits: ReplicaLimits) -> ReplicaCount | None:
        """Returns another number of replicas, or another reason for the same number; None if nothing changes."""
        if now - self.changed_at < PAUSE_SECONDS:
            return None
        if self.late_since is not None and now - self.late_since >= LATE_FOR_SECONDS:
            return self._more(replicas, limits)
        if self.prompt_since is not None and now - self.prompt_since >= PROMPT_FOR_SECONDS and replicas > limits.least:
            return self._fewer(replicas)
        return None

    def _more(self, replicas: int, limits: ReplicaLimits) -> ReplicaCount:
        late = f"records have waited for more than {LATE_SECONDS:g} s"
        if replicas < limits.useful:
            return ReplicaCount(min(limits.useful, 2 * replicas), late)
        limit = f"maxReplicas, {limits.most}" if replicas >= limits.most else f"one for each of {limits.shards} shards"
        return ReplicaCount(replicas, f"{late}, but there are already as many replicas as allowed: {limit}")

    def _fewer(self, replicas: int) -> ReplicaCount | None:
        busy = self.busy / self.reports if self.reports else 0.0
        if busy * replicas / (replicas - 1) > BUSY_MAX:
            return None
        return ReplicaCount(
            replicas - 1,
            f"no record has waited for {PROMPT_SECONDS:g} s or more in {PROMPT_FOR_SECONDS:g} s, and the workers were "
            f"busy for {busy:.0%} of the time",
        )
