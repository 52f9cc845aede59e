"""What the handlers of transactions need of the SPU, one interface per need.

`Spu` satisfies all of these without naming them; `handlers.SpuHost` is where mypy checks that.
"""

from typing import Protocol

from tailrace.broker.transactions.hosting.transaction_coordination import TransactionCoordination
from tailrace.broker.transactions.markers.marker_host import MarkerHost
from tailrace.cluster.cluster import Cluster
from tailrace.runtime.wall_clock import WallClock
from tailrace.server.host import Host


class MarkerWritingHost(MarkerHost, Protocol):
    """For WriteTxnMarkers."""


class TransactionHost(Protocol):
    """For APIs that ask the coordinator of a transactional id."""

    @property
    def transactions(self) -> TransactionCoordination:
        """The transactions that this SPU coordinates."""


class AddPartitionsHost(TransactionHost, Protocol):
    """For adding partitions, which must exist."""

    @property
    def cluster(self) -> Cluster:
        """The mirror of the cluster, which has all topics."""


class ListTransactionsHost(TransactionHost, Protocol):
    """For listing transactions by their age."""

    @property
    def wall_clock(self) -> WallClock:
        """The clock by which transactions have begun."""


class AddOffsetsHost(TransactionHost, Host, Protocol):
    """For adding the offsets of a group, whose topic may have to be created."""

    def end_turn(self) -> None:
        """Lets other tasks see what this turn has appended."""
