"""Finds replicas that have reached neither the Streaming Controller nor enough others for a time.

Most likely another SPU leads their partitions then. A client that still reaches this SPU would stay here, with errors
that do not make it look for another leader, or with fetches that find no records. What cannot be served therefore gets
the error NOT_LEADER_OR_FOLLOWER. While one of the two sides is reachable, nothing changes: followers can commit without
the Streaming Controller, and while it confirms leases no other SPU leads. `Lease` has both rules about the end of a
lease.
"""

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.runtime.logs import FilteringBoundLogger

from .lease import Lease

WITHOUT_LEASE_SECONDS_MAX = 1.5
"""How long this SPU may be without a lease before it is isolated. A quick restart of the SC must not count."""
CHECK_SECONDS = 0.5
"""How often the replicas are checked."""


class Isolation:
    def __init__(self, replicas: ReplicaRegistry, lease: Lease, logger: FilteringBoundLogger) -> None:
        self._replicas = replicas
        self._lease = lease
        self._logger = logger
        self._is_without_lease = False
        self._is_logged = False
        """Whether the current isolation has been logged."""

    def is_isolated(self, replica: Replica) -> bool:
        return self._is_without_lease and replica.replication is not None and not replica.replication.reaches_peers

    async def watch(self) -> None:
        """Checks the replicas until cancelled."""
        while True:
            await trio.sleep_until(max(self._isolated_from, trio.current_time() + CHECK_SECONDS))
            self._is_without_lease = trio.current_time() >= self._isolated_from
            if self._is_without_lease:
                self._refuse_waiting()
            else:
                self._is_logged = False

    @property
    def _isolated_from(self) -> float:
        return self._lease.last_end + WITHOUT_LEASE_SECONDS_MAX

    def _refuse_waiting(self) -> None:
        """Refuses the requests that wait at isolated replicas."""
        isolated = [replica for replica in self._replicas if self.is_isolated(replica)]
        if isolated and not self._is_logged:
            self._logger.warning("partitions_cut_off", count=len(isolated))
        self._is_logged = bool(isolated)
        for replica in isolated:
            replica.refuse_waiters(replica.isolated_error())
