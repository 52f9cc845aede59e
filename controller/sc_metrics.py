"""The metrics of the SC: counters as plain numbers, gauges, and their text for Prometheus."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tailrace.controller.objects.objects import PartitionResolution
from tailrace.controller.partitions.copy_sets import is_changing
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.apis import Api
from tailrace.server import metric_text
from tailrace.server.metric_text import counters
from tailrace.server.server_metrics import ServerMetrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tailrace.controller.workflow.workflow import WorkflowCounts


class ScMetrics:
    """The counters of the SC's connections, and those of its server for clients."""

    def __init__(self, apis: Mapping[int, Api]) -> None:
        self.server = ServerMetrics(apis)
        self.cm_accepted = 0
        self.cm_rejected = 0
        self.cm_lost = 0
        self.live_replica_reports = 0
        self.refused_live_replica_reports = 0
        self.pushed_specs = 0
        self.refused_specs = 0
        self.pushed_metadata = 0
        self.forwarded_requests = 0


class ScGauges(Struct, frozen=True):
    """The state of the SC at the moment of a scrape. The defaults are those of a standby SC."""

    is_leading: bool = False
    connected_spus: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    """The number of partitions by resolution."""
    moving_partitions: int = 0
    """The number of partitions whose replicas are being changed."""


def gauges_of(local: LocalStore, connected_spus: int) -> ScGauges:
    """Returns the gauges of an active SC."""
    partitions = dict.fromkeys((each.value for each in PartitionResolution if each.value), 0)
    moving = 0
    for topic in local.topics.values():
        rows = topic.status.replica_map
        for number, partition in local.partitions_of(topic.id).items():
            if partition.status.resolution.value:
                partitions[partition.status.resolution.value] += 1
            moving += number in rows and is_changing(partition, rows[number])
    return ScGauges(True, connected_spus, partitions, moving)


def render(metrics: ScMetrics, workflow: "WorkflowCounts", gauges: ScGauges) -> bytes:
    """Returns the text that a Prometheus server scrapes."""
    return metric_text.render(partial(_families, metrics, workflow, gauges))


_COUNTERS = (
    ("cm_accepted", "Connections of SPUs that the Connection Manager accepted."),
    ("cm_rejected", "Connections that it rejected, because the SPU is not registered or its id is taken."),
    ("cm_lost", "SPUs that went offline, because their lease expired or they gave it back."),
    ("live_replica_reports", "Partitions whose leaders reported their live replicas."),
    ("refused_live_replica_reports", "Partitions reported by an SPU that does not lead them in that epoch."),
    ("pushed_specs", "Times that an SPU was sent specs."),
    ("refused_specs", "Times that an SPU could not carry out its specs."),
    ("pushed_metadata", "Times that an SPU was sent metadata of the cluster."),
    ("forwarded_requests", "Clients' requests that SPUs forwarded."),
)


_WORKFLOW_COUNTERS = (
    ("decided_events", "Events that the controllers handled."),
    ("decided_actions", "Actions that the controllers decided on."),
    ("elections", "Leaders that were elected."),
    ("unclean_elections", "Elected leaders that were not live replicas, so that records of others are lost."),
)
_READER_COUNTERS = (
    ("read_events", "Changes of the key-value store that were read."),
    ("store_listings", "Times that the whole store was listed, at a start or after its watch fell behind."),
    ("refused_objects", "Values in the store that cannot be read as objects."),
    ("failed_reads", "Times that the store did not respond to a reader."),
)
_UPDATER_COUNTERS = (
    ("written_objects", "Objects written to the key-value store for the controllers."),
    ("lost_writes", "Writes that found a newer version of their object, and were decided on again."),
    ("oversized_objects", "Objects too large to be stored."),
    ("failed_writes", "Times that the store did not respond to a writer."),
    ("failed_provisions", "Times that a managed SPU could not be started or stopped."),
)


def _families(metrics: ScMetrics, workflow: "WorkflowCounts", gauges: ScGauges) -> Iterator["Metric"]:
    from prometheus_client.core import GaugeMetricFamily

    yield from metrics.server.families()
    yield from counters(metrics, _COUNTERS)
    yield from counters(workflow, _WORKFLOW_COUNTERS)
    yield from counters(workflow.reader, _READER_COUNTERS)
    yield from counters(workflow.updaters, _UPDATER_COUNTERS)
    yield GaugeMetricFamily(
        "tailrace_leading", "1 while this SC is active, 0 while it is a standby.", value=int(gauges.is_leading)
    )
    yield GaugeMetricFamily("tailrace_connected_spus", "SPUs that are connected.", value=gauges.connected_spus)
    partitions = GaugeMetricFamily("tailrace_partitions", "Partitions, by their status.", labels=["status"])
    for status, count in gauges.partitions.items():
        partitions.add_metric([status], count)
    yield partitions
    yield GaugeMetricFamily(
        "tailrace_moving_partitions", "Partitions whose replicas are being changed.", value=gauges.moving_partitions
    )
