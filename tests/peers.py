"""SPUs that have only their links, and record what they receive."""

from collections.abc import Callable
from uuid import UUID

import structlog
import trio

from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.peers.peer_messages import PeerIdentity, PeerMessage, ReceivedBatches
from tailrace.broker.replication.entries import Entry
from tailrace.broker.replication.messages import Append, AppendReply
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, Listener, Network
from tailrace.storage.directory.checkpoints import ReplicaKey

CLUSTER_ID = "the-cluster"
KEY = (UUID(int=7), 0)


def identity(spu: int) -> PeerIdentity:
    return PeerIdentity(SpuId(spu), f"store-{spu}", f"process-{spu}")


def cluster_of(*spus: int, cluster_id: str = CLUSTER_ID) -> Cluster:
    """Makes a cluster whose SPUs listen at their private ports on a simulated network."""
    cluster = Cluster()
    cluster.identify(cluster_id, SpuId(spus[0]))
    for spu in spus:
        put_spu(cluster, spu, private_address(spu))
    return cluster


def put_spu(cluster: Cluster, spu: int, address: Address | None) -> None:
    private = None if address is None else Endpoint("PRIVATE", address.host, address.port)
    cluster.put_spu(SpuSpec(SpuId(spu), private=private))


def private_address(spu: int) -> Address:
    return Address(f"spu-{spu}", 9006)


def append(base: int, entries: tuple[Entry, ...] = (), *, epoch: int = 1, log_end: int = 1_000_000) -> Append:
    return Append(Epoch(epoch), base, entries, base, log_end, 0, frozenset({SpuId(1), SpuId(2)}))


def append_reply(spu: int, matched_end: int, *, missed: bool = False, epoch: int = 1) -> AppendReply:
    return AppendReply(Epoch(epoch), SpuId(spu), f"store-{spu}", matched_end, matched_end, 0, missed)


class Spu:
    """The links of an SPU, and the sink of what arrives on them."""

    def __init__(self, spu: int, network: Network, cluster: Cluster) -> None:
        self.id = SpuId(spu)
        self.cluster = cluster
        self.links = PeerLinks(identity(spu), cluster, network, RandomChance(spu), structlog.get_logger())
        self.heard: list[tuple[SpuId, ReplicaKey, PeerMessage]] = []
        self.batches: list[bytes | None] = []
        self.linked: list[tuple[str, SpuId, bool]] = []
        self.turns = 0
        self.unreadable: list[ReplicaKey] = []
        self.answer: Callable[[SpuId, ReplicaKey, PeerMessage], None] | None = None
        self._changed = trio.Event()

    def on_message(
        self,
        spu: SpuId,
        from_leader: bool,
        key: ReplicaKey,
        message: PeerMessage,
        batches: ReceivedBatches | None,
    ) -> None:
        self.heard.append((spu, key, message))
        self.batches.append(None if batches is None else bytes(batches.data))
        if self.answer is not None:
            self.answer(spu, key, message)

    def on_linked(self, spu: SpuId, from_leader: bool) -> None:
        self.linked.append(("linked", spu, from_leader))
        self._wake()

    def on_unlinked(self, spu: SpuId, from_leader: bool) -> None:
        self.linked.append(("unlinked", spu, from_leader))
        self._wake()

    def on_unreadable(self, key: ReplicaKey, reason: str) -> None:
        self.unreadable.append(key)

    def end_turn(self) -> None:
        self.turns += 1
        self.links.flush()
        self._wake()

    @property
    def messages(self) -> list[PeerMessage]:
        return [message for _, _, message in self.heard]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until a condition holds; checks it whenever something has arrived."""
        with trio.fail_after(60):
            while not holds():
                await self._changed.wait()

    async def until_heard(self, count: int) -> None:
        await self.until(lambda: len(self.heard) >= count)

    async def run(self, listener: Listener) -> None:
        await self.links.run(self, listener)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
