"""Whether this SPU is cut off: neither the Streaming Controller answers it, nor do those with whom it commits.

Others lead then, most likely, and a client that still reaches this SPU would be kept here as long as that lasts: with
refusals that do not make it look for another leader, or with fetches that find nothing. So what cannot be served is
NOT_LEADER_OR_FOLLOWER. While either side is there nothing changes: followers commit without a Streaming Controller, and
with its leases confirmed nobody else leads.
"""

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry

from .lease import Lease

WITHOUT_LEASE_SECONDS_MAX = 1.5
"""An SC that is started again at once changes nothing."""
LOOK_SECONDS = 0.5


class Isolation:
    def __init__(self, replicas: ReplicaRegistry, lease: Lease, logger: FilteringBoundLogger) -> None:
        self._replicas = replicas
        self._lease = lease
        self._logger = logger
        self._is_without_lease = False
        self._is_said = False
        """That partitions are cut off, since they are."""

    def is_cut_off(self, replica: Replica) -> bool:
        return self._is_without_lease and replica.replication is not None and not replica.replication.reaches_peers

    async def watch(self) -> None:
        """Runs until cancelled."""
        while True:
            await trio.sleep_until(max(self._well_until, trio.current_time() + LOOK_SECONDS))
            self._is_without_lease = trio.current_time() >= self._well_until
            if self._is_without_lease:
                self._look()
            else:
                self._is_said = False

    @property
    def _well_until(self) -> float:
        return self._lease.last_end + WITHOUT_LEASE_SECONDS_MAX

    def _look(self) -> None:
        """Who waits for what does not come is told so."""
        cut_off = [replica for replica in self._replicas if self.is_cut_off(replica)]
        if cut_off and not self._is_said:
            self._logger.warning("partitions_cut_off", count=len(cut_off))
        self._is_said = bool(cut_off)
        for replica in cut_off:
            replica.refuse_waiters(replica.isolated_error())
