"""What the writing of markers needs of the SPU. The start of an SPU loads this, and not the writing itself."""

from typing import Protocol

from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.runtime.wall_clock import WallClock

from .verifications import Verifications


class MarkedGroups(Protocol):
    """The groups whose committed offsets may be part of transactions."""

    def on_marker(self, replica: Replica, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Notes that a marker was appended to a partition of `__consumer_offsets`."""


class IsolationCheck(Protocol):
    """Says whether another SPU may lead a replica's partition by now."""

    def is_isolated(self, replica: Replica) -> bool: ...


class MarkerHost(Protocol):
    """What the writing of markers needs of the SPU."""

    @property
    def replicas(self) -> ReplicaRegistry: ...

    @property
    def wall_clock(self) -> WallClock: ...

    @property
    def deadlines(self) -> Deadlines: ...

    @property
    def isolation(self) -> IsolationCheck: ...

    @property
    def groups(self) -> MarkedGroups: ...

    @property
    def verifications(self) -> Verifications: ...

    def on_appended(self, replica: Replica) -> None: ...
