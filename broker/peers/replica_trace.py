"""Says, at the level debug alone, which way news of a replica takes through the stations of an SPU.

It stands beside the path of every replicated batch, so it is made only where somebody wants to see that, and asked for
by a comparison with None.
"""

from structlog.typing import FilteringBoundLogger

from tailrace.protocol.ids import SpuId
from tailrace.storage.directory.checkpoints import ReplicaKey


class ReplicaTrace:
    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger

    def leader_event(self, key: ReplicaKey, what: object) -> None:
        """A leader controller hears of its partition's spec, of an SPU that is lost or back, of what a producer has
        appended, or a follower has said."""
        self._logger.debug("leader_controller_told", what=_name(what), **_labels(key))

    def follower_event(self, key: ReplicaKey, what: object) -> None:
        """A follower controller hears of its partition's spec, or of what the leader has said."""
        self._logger.debug("follower_controller_told", what=_name(what), **_labels(key))

    def dispatched(self, key: ReplicaKey, what: object, origin: SpuId) -> None:
        """Another SPU has said something, which goes to the controller of the replica."""
        self._logger.debug("replica_info_dispatched", what=_name(what), origin=origin, **_labels(key))

    def multicast(self, key: ReplicaKey, what: object, to: SpuId) -> None:
        """A controller tells another SPU; a leader tells each follower so."""
        self._logger.debug("replica_info_multicast", what=_name(what), to=to, **_labels(key))


def _name(what: object) -> str:
    return what if isinstance(what, str) else type(what).__name__


def _labels(key: ReplicaKey) -> dict[str, object]:
    return {"topic_id": str(key[0]), "partition": key[1]}
