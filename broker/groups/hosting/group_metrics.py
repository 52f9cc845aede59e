"""The Prometheus metrics of groups."""

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_lag import GroupLag
from tailrace.server.metric_text import counters, gauge, labels

from .group_gauges import GroupGauges

if TYPE_CHECKING:
    from prometheus_client.core import Metric

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


def group_families(counts: GroupCounts, gauges: GroupGauges) -> Iterator["Metric"]:
    """Yields the metrics with few series."""
    from prometheus_client.core import GaugeMetricFamily

    yield from counters(counts, _COUNTERS)
    states = GaugeMetricFamily("tailrace_groups", "Groups that this SPU coordinates.", labels=["type", "state"])
    for (kind, state), count in sorted(gauges.states.items()):
        states.add_metric([kind, state], count)
    yield states


def group_series(gauges: GroupGauges) -> Iterator[str]:
    """Yields the text of the metrics with a series per group or per partition of a group."""
    members = ((labels(group=group_id), count) for group_id, count in gauges.members)
    yield from gauge("tailrace_group_members", "Members of a group.", members)
    for attribute, name, text in _LAG_GAUGES:
        value_of = attrgetter(attribute)
        yield from gauge(name, text, ((_labels_of(lag), value_of(lag)) for lag in gauges.group_lags))


def _labels_of(lag: GroupLag) -> str:
    return labels(group=lag.group_id, partition=lag.partition, topic=lag.topic)
