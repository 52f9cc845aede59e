"""What the handlers that write and read records need of the SPU, one interface per need.

`Spu` satisfies all of these without naming them; `handlers.SpuHost` is where mypy checks that. The tests can satisfy
them with less.
"""

from typing import Protocol

from tailrace.broker.controller_link.isolation import Isolation
from tailrace.broker.controller_link.producer_ids import ProducerIds
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.shelves.offloading import Offloading
from tailrace.broker.shelves.shelf_reads import ShelfReads
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.transactions.hosting.transaction_coordination import TransactionCoordination
from tailrace.broker.transactions.markers.verifications import TransactionPartitions, Verifications
from tailrace.broker.upkeep.storage_limit import StorageLimit
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.ids import SpuId
from tailrace.runtime.wall_clock import WallClock
from tailrace.server.fairness.large_requests import LargeRequests

from .fetch_room import FetchRoom
from .fetch_sessions import FetchSessions
from .refused_batches import RefusedBatches
from .refused_producers import RefusedProducers


class ReplicasHost(Protocol):
    """For handlers that read replicas."""

    @property
    def replicas(self) -> ReplicaRegistry:
        """The replicas that this SPU holds."""


class LeadingHost(ReplicasHost, Protocol):
    """For handlers whose response a client cannot take back, so that only a leader with a lease may give it."""

    def is_sure_to_lead(self, replica: Replica) -> bool:
        """Whether no other SPU can lead the partition now."""


class LeaderHintHost(ReplicasHost, Protocol):
    """For telling a client that asked the wrong SPU which SPU leads."""

    @property
    def id(self) -> SpuId:
        """The id of this SPU."""

    @property
    def cluster(self) -> Cluster:
        """The mirror of the cluster's metadata."""


class ProduceHost(LeadingHost, LeaderHintHost, Protocol):
    """For `produce`, `produce_shortcut` and the steps that they share."""

    @property
    def wall_clock(self) -> WallClock:
        """The clock that gives records their append time."""

    @property
    def metrics(self) -> BrokerMetrics:
        """The counters that a produce request raises."""

    @property
    def storage_limit(self) -> StorageLimit:
        """The limit of what producers may add to this SPU's storage."""

    @property
    def isolation(self) -> Isolation:
        """Whether this SPU is isolated: without the Streaming Controller and without enough followers."""

    @property
    def refused_batches(self) -> RefusedBatches:
        """The batches that idempotent producers have to send again."""

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of requests that wait for an acknowledgement."""

    def on_appended(self, replica: Replica) -> None:
        """Notes that the replica's log has grown; followers and fetches are woken at the end of the turn."""


class TransactionalProduceHost(ProduceHost, Protocol):
    """For produce requests of all kinds, with transactional or heavy batches."""

    @property
    def large_requests(self) -> LargeRequests:
        """Handles requests with heavy batches in steps."""

    @property
    def transactions(self) -> TransactionPartitions:
        """Finds the coordinators of transactions."""

    @property
    def verifications(self) -> Verifications:
        """The transactional batches that wait for their coordinators."""

    @property
    def refused_producers(self) -> RefusedProducers:
        """The producers whose refusal was logged."""

    def end_turn(self) -> None:
        """Lets other tasks see what this turn has appended."""


class FetchHost(LeadingHost, LeaderHintHost, Protocol):
    """For `fetch`."""

    @property
    def broker_configs(self) -> BrokerConfigs:
        """The settings that bound a fetch."""

    @property
    def metrics(self) -> BrokerMetrics:
        """The counters that a fetch raises."""

    @property
    def fetch_sessions(self) -> FetchSessions:
        """The incremental fetch sessions of this SPU's clients."""

    @property
    def fetch_room(self) -> FetchRoom:
        """The room for fetches that wait for records."""

    @property
    def isolation(self) -> Isolation:
        """Whether this SPU is isolated: without the Streaming Controller and without enough followers."""

    @property
    def shelf_reads(self) -> ShelfReads:
        """Reads records that only shelves still have."""

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of fetches that wait for records."""


class ListOffsetsHost(ReplicasHost, Protocol):
    """For `list_offsets`, which also searches shelves."""

    @property
    def shelf_reads(self) -> ShelfReads:
        """Finds records by time on shelves."""


class DeleteRecordsHost(ReplicasHost, Protocol):
    """For `delete_records`, which also deletes on shelves."""

    @property
    def offloading(self) -> Offloading:
        """Deletes records on shelves."""

    @property
    def storage_limit(self) -> StorageLimit:
        """The limit that a deletion makes room below."""


class ProducerIdHost(Protocol):
    """For `init_producer_id`."""

    @property
    def producer_ids(self) -> ProducerIds:
        """The producer ids that the controller has given to this SPU."""

    @property
    def transactions(self) -> TransactionCoordination:
        """The transactions that this SPU coordinates."""
