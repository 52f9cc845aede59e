"""The metrics of groups, as Prometheus knows metrics."""

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
    ("group_rebalances", "Assignments made for groups whose members or topics were others than before."),
    ("committed_offsets", "Offsets committed by groups, one for each partition."),
    ("expired_offsets", "Committed offsets forgotten because nobody had used them for so long."),
    ("group_loads", "Times that the groups of a partition of the internal topic were read from its log."),
    ("group_load_seconds", "Seconds spent in reading groups from logs."),
)
_LAG_GAUGES = (
    ("committed", "tailrace_group_committed_offset", "What the group reads next of the partition."),
    ("records", "tailrace_group_lag_records", "How many records of the partition the group has not read."),
    ("seconds", "tailrace_group_lag_seconds", "How old the first record is that the group has not read."),
)


def families(counts: GroupCounts, gauges: GroupGauges) -> Iterator["Metric"]:
    """Those of which there are few series."""
    from prometheus_client.core import GaugeMetricFamily

    yield from counters(counts, _COUNTERS)
    states = GaugeMetricFamily("tailrace_groups", "Groups coordinated here.", labels=["type", "state"])
    for (kind, state), count in sorted(gauges.states.items()):
        states.add_metric([kind, state], count)
    yield states


def pieces(gauges: GroupGauges) -> Iterator[str]:
    """The text of the others."""
    members = ((labels(group=group_id), count) for group_id, count in gauges.members)
    yield from gauge("tailrace_group_members", "Members of a group.", members)
    for attribute, name, text in _LAG_GAUGES:
        value_of = attrgetter(attribute)
        yield from gauge(name, text, ((_labels_of(lag), value_of(lag)) for lag in gauges.group_lags))


def _labels_of(lag: GroupLag) -> str:
    return labels(group=lag.group_id, partition=lag.partition, topic=lag.topic)
