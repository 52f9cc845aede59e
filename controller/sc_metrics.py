"""What the SC counts, as plain numbers, beside what its server counts of clients."""

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
    """What is, at the moment of the scrape."""

    is_leading: bool = False
    connected_spus: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many there are, by their resolution."""
    moving_partitions: int = 0
    """Those that are getting other replicas."""


def gauges_of(local: LocalStore, connected_spus: int) -> ScGauges:
    """Of an SC that leads."""
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
    """The text a Prometheus server scrapes."""
    return metric_text.render(partial(_families, metrics, workflow, gauges))


_COUNTERS = (
    ("cm_accepted", "Connections of SPUs that the Connection Manager accepted."),
    ("cm_rejected", "Connections that it rejected: of SPUs that are not registered, or whose id is taken."),
    ("cm_lost", "SPUs that went offline: their lease ran out, or they gave it back."),
    ("live_replica_reports", "Partitions of which their leader reported the live replicas."),
    ("refused_live_replica_reports", "Partitions reported by an SPU that does not lead them at that epoch."),
    ("pushed_specs", "Times that an SPU was told what it is to hold."),
    ("refused_specs", "Times that an SPU could not do what it was told."),
    ("pushed_metadata", "Times that an SPU was told about the cluster."),
    ("forwarded_requests", "Clients' requests that SPUs passed on."),
)


_WORKFLOW_COUNTERS = (
    ("decided_events", "Events that the controllers decided about."),
    ("decided_actions", "Actions that they decided."),
    ("elections", "Leaders that were elected."),
    ("unclean_elections", "Those of them that were not live: what only others had is lost."),
)
_READER_COUNTERS = (
    ("read_events", "Changes of the key-value store that were read."),
    ("store_listings", "Times that the whole store was listed: at a start, and after its watch fell behind."),
    ("refused_objects", "Values in the store that are no objects we can read."),
    ("failed_reads", "Times that the store did not answer a reader."),
)
_UPDATER_COUNTERS = (
    ("written_objects", "Objects written to the key-value store for the controllers."),
    ("lost_writes", "Writes that found a newer version of their object, and were decided again."),
    ("oversized_objects", "Objects too large to be stored."),
    ("failed_writes", "Times that the store did not answer a writer."),
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
        "tailrace_leading", "1 while this SC leads, 0 while it stands by.", value=int(gauges.is_leading)
    )
    yield GaugeMetricFamily("tailrace_connected_spus", "SPUs that are connected.", value=gauges.connected_spus)
    partitions = GaugeMetricFamily("tailrace_partitions", "Partitions, by their status.", labels=["status"])
    for status, count in gauges.partitions.items():
        partitions.add_metric([status], count)
    yield partitions
    yield GaugeMetricFamily(
        "tailrace_moving_partitions", "Partitions that are getting other replicas.", value=gauges.moving_partitions
    )
