"""The links to all SPUs of which this one follows or leads a replica, and what is told over them.

A follower's SPU dials the leader's, once for all replicas that it follows there. A link may be lost at any time, and
what waits on it is lost then: those who use it say it again. So nobody waits for an answer, and nothing is promised.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import SpuId
from tailrace.runtime.chance import Chance
from tailrace.runtime.network import Listener, Network
from tailrace.storage.checkpoints import ReplicaKey

from .peer_messages import PeerIdentity, PeerMessage, ReceivedBatches, RecordsToSend
from .replication.messages import Hello


class PeerSink(Protocol):
    """Whoever takes what other SPUs tell this one. `from_leader`: on a link that this side dialled, as a follower."""

    def on_message(
        self,
        spu: SpuId,
        incarnation: str,
        from_leader: bool,
        key: ReplicaKey,
        message: PeerMessage,
        batches: ReceivedBatches | None,
    ) -> None: ...

    def on_linked(self, spu: SpuId, from_leader: bool) -> None: ...

    def on_unlinked(self, spu: SpuId, from_leader: bool) -> None: ...

    def end_turn(self) -> None:
        """Nothing more has arrived for now; what was told meanwhile is sent after this."""


@dataclass(frozen=True, slots=True)
class PeerGauges:
    """Of one link, at a scrape."""

    spu: SpuId
    is_leader: bool
    """Whether this SPU leads on it, and the other one follows."""
    age_seconds: float


class PeerLinks:
    def __init__(
        self,
        identity: PeerIdentity,
        cluster: Cluster,
        network: Network,
        chance: Chance,
        logger: FilteringBoundLogger,
    ) -> None:
        """The cluster says its id, who belongs to it, and where the private ports are."""

    async def run(self, sink: PeerSink, listener: Listener) -> None:
        """Dials and accepts, until cancelled."""

    # what is told

    def to_follower(
        self, spu: SpuId, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None
    ) -> None:
        """Tells it on the link which that SPU has dialled, if there is one. It leaves with the next `flush`."""

    def to_leader(
        self, spu: SpuId, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None
    ) -> None:
        """Tells it on the link which this SPU has dialled, if there is one. It leaves with the next `flush`."""

    def flush(self) -> None:
        """Sends what was told, as far as the connections take it. Called by whoever ends a turn; after `end_turn` it
        happens by itself."""

    def forget(self, key: ReplicaKey) -> None:
        """Drops all that waits to be sent for that replica: its role has changed."""

    def take_hellos(self, key: ReplicaKey) -> Sequence[Hello]:
        """The newest Hello of each SPU that is linked and said one: it may have come before its leader was ready."""
        raise NotImplementedError

    # who is dialled

    def follow(self, spu: SpuId) -> None:
        """One more replica follows that SPU: there shall be a link to it."""

    def unfollow(self, spu: SpuId) -> None:
        """One replica fewer; the link ends with the last one."""

    def is_linked(self, spu: SpuId, *, from_leader: bool) -> bool:
        raise NotImplementedError

    def gauges(self, now: float) -> list[PeerGauges]:
        raise NotImplementedError
