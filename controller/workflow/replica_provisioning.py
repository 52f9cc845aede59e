"""The interface through which the SC starts and stops the replicas of deployed triggers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from tailrace.controller.state.actions import KeepReplica
from tailrace.runtime.logs import FilteringBoundLogger

if TYPE_CHECKING:
    from tailrace.controller.triggers.bounded_log import LogPart


class ReplicaProvisioner(Protocol):
    """Runs replicas of triggers. No call waits for a process."""

    def keep(self, wanted: KeepReplica) -> None:
        """Keeps the replica running in this revision from now on, and restarts it when it ends."""

    def drop(self, trigger: str, replica: str) -> None:
        """Stops the replica cleanly, if it runs."""

    def forget(self, trigger: str) -> None:
        """Removes the logs of a deleted trigger when its replicas have ended."""

    def states(self, trigger: str) -> Mapping[str, str]:
        """Returns what is known of the process of each replica, in words for people."""

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> "LogPart | None":
        """Reads what the replica has printed after a position, or the last part for -1. None if there is no log."""


class NoReplicaProvisioner:
    """The provisioner of an SC that starts no replicas. People may start them by hand."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._known: set[tuple[str, str]] = set()
        """The replicas that should run. Each is logged once, although it is wanted at each reconciliation."""

    def keep(self, wanted: KeepReplica) -> None:
        key = (wanted.trigger, wanted.replica)
        if key in self._known:
            return
        self._known.add(key)
        self._logger.warning(
            "replica_not_started",
            trigger=wanted.trigger,
            replica=wanted.replica,
            reason="nothing here starts replicas",
        )

    def drop(self, trigger: str, replica: str) -> None:
        self._known.discard((trigger, replica))
        self._logger.warning(
            "replica_not_stopped", trigger=trigger, replica=replica, reason="nothing here stops replicas"
        )

    def forget(self, trigger: str) -> None:
        pass  # There is nothing to forget.

    def states(self, trigger: str) -> Mapping[str, str]:
        return {}

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> "LogPart | None":
        return None
