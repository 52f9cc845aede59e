"""The metrics of groups, as Prometheus knows metrics."""

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from tailrace.server.metrics import counters

from .group_gauges import GroupGauges
from .groups.counts import GroupCounts
from .groups.lag import Lag

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SAMPLES_PER_PIECE = 500

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
    """The text of the others, in pieces each of which is made in a moment. Prometheus' own library would take a quarter
    of a second for as many as there may be, and nobody could do anything meanwhile."""
    members = ((_labels(group=group_id), count) for group_id, count in gauges.members)
    yield from _gauge("tailrace_group_members", "Members of a group.", members)
    for attribute, name, text in _LAG_GAUGES:
        value_of = attrgetter(attribute)
        yield from _gauge(name, text, ((_labels_of(lag), value_of(lag)) for lag in gauges.lags))


def _gauge(name: str, text: str, samples: Iterable[tuple[str, float | None]]) -> Iterator[str]:
    yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
    rest = iter(samples)
    while some := list(islice(rest, SAMPLES_PER_PIECE)):
        yield "".join(f"{name}{labels} {value}\n" for labels, value in some if value is not None)


def _labels_of(lag: Lag) -> str:
    return _labels(group=lag.group_id, partition=lag.partition, topic=lag.topic)


def _labels(**labels: object) -> str:
    pairs = (f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
