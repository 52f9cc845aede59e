"""Traces at the log level debug how replication messages pass through an SPU.

It lies beside the path of every replicated batch. So it exists only if it was requested, and callers compare it with
None.
"""

from tailrace.protocol.ids import SpuId
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.storage.directory.checkpoints import ReplicaKey


class ReplicaTrace:
    """The trace of one SPU."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger

    def leader_event(self, key: ReplicaKey, what: object) -> None:
        """Logs an event of a leader controller: a spec, a lost or returned SPU, an append of a producer, or a
        follower's message."""
        self._logger.debug("leader_controller_told", what=_name(what), **_labels(key))

    def follower_event(self, key: ReplicaKey, what: object) -> None:
        """Logs an event of a follower controller: a spec, or a message of the leader."""
        self._logger.debug("follower_controller_told", what=_name(what), **_labels(key))

    def dispatched(self, key: ReplicaKey, what: object, origin: SpuId) -> None:
        """Logs that a message of another SPU goes to the controller of its replica."""
        self._logger.debug("replica_info_dispatched", what=_name(what), origin=origin, **_labels(key))

    def multicast(self, key: ReplicaKey, what: object, to: SpuId) -> None:
        """Logs that a controller sends a message to another SPU. A leader sends to each follower in this way."""
        self._logger.debug("replica_info_multicast", what=_name(what), to=to, **_labels(key))


def _name(what: object) -> str:
    return what if isinstance(what, str) else type(what).__name__


def _labels(key: ReplicaKey) -> dict[str, object]:
    return {"topic_id": str(key[0]), "partition": key[1]}
