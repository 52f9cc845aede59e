"""The Prometheus metrics of groups: counters, and gauges that are read at each scrape."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tailrace.broker.groups.common.group import Group, GroupKind
from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_lag import GroupLag
from tailrace.server.metric_text import counters, gauge, labels

if TYPE_CHECKING:
    from prometheus_client.core import Metric

GROUPS_MAX = 10_000
"""How many groups are reported by name. The number is bounded because clients choose group ids."""

_COUNTERS = (
    ("group_rebalances", "Assignments made for groups because their members or topics had changed."),
    ("committed_offsets", "Offsets committed by groups, one for each partition."),
    ("expired_offsets", "Committed offsets removed because they had expired."),
    ("group_loads", "Times that the groups of a partition of __consumer_offsets were loaded from its log."),
    ("group_load_seconds", "Seconds spent in loading groups from logs."),
)
_LAG_GAUGES = (
    ("committed", "tailrace_group_committed_offset", "Offset that the group has committed for the partition."),
    ("records", "tailrace_group_lag_records", "Records of the partition that the group has not read."),
    ("seconds", "tailrace_group_lag_seconds", "Age of the first record that the group has not read."),
)


class GroupGauges(Struct):
    """Gauges of the groups that an SPU coordinates."""

    states: Counter[tuple[GroupKind, str]] = field(default_factory=Counter)
    """The number of groups of each kind in each state."""
    members: Sequence[tuple[str, int]] = ()
    """The ids and member counts of the largest groups."""
    group_lags: Sequence[GroupLag] = ()
    """The largest lags of groups."""
    pending_offsets: int = 0
    """The number of offsets that wait for the ends of transactions."""


def gauge_groups(groups: Iterable[Group], group_lags: Sequence[GroupLag], pending_offsets: int) -> GroupGauges:
    found = list(groups)
    members = ((group.group_id, len(group.members)) for group in found)
    return GroupGauges(
        Counter((group.kind, str(group.state)) for group in found),
        heapq.nlargest(GROUPS_MAX, members, key=lambda each: each[1]),
        group_lags,
        pending_offsets,
    )


def group_families(counts: GroupCounts, gauges: GroupGauges) -> Iterator["Metric"]:
    """Yields the metrics with few series."""
    from prometheus_client.core import GaugeMetricFamily

    yield from counters(counts, _COUNTERS)
    states = GaugeMetricFamily("tailrace_groups", "Groups that this SPU coordinates.", labels=["type", "state"])
    for (kind, state), count in sorted(gauges.states.items()):
        states.add_metric([kind, state], count)
    yield states
    yield GaugeMetricFamily(
        "tailrace_pending_offsets",
        "Offsets committed in transactions that have not ended.",
        value=gauges.pending_offsets,
    )


def group_series(gauges: GroupGauges) -> Iterator[str]:
    """Yields the text of the metrics with a series per group or per partition of a group."""
    members = ((labels(group=group_id), count) for group_id, count in gauges.members)
    yield from gauge("tailrace_group_members", "Members of a group.", members)
    for attribute, name, text in _LAG_GAUGES:
        value_of = attrgetter(attribute)
        yield from gauge(name, text, ((_labels_of(lag), value_of(lag)) for lag in gauges.group_lags))


def _labels_of(lag: GroupLag) -> str:
    return labels(group=lag.group_id, partition=lag.partition, topic=lag.topic)
