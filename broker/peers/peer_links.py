"""The links to all SPUs that this one follows or leads, and the sending of messages over them.

A follower's SPU dials the leader's SPU, once for all replicas that it follows there. A link may be lost at any time,
together with the messages that wait on it; the roles send again. So no task waits for a response.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import trio

from tailrace.broker.replication.messages import Hello
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import SpuId
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection, Listener, Network
from tailrace.server.encryption.server_tls import ServerTls
from tailrace.server.inbox import ReceiveBuffers
from tailrace.storage.directory.checkpoints import ReplicaKey

from .peer_acceptor import PeerAcceptor
from .peer_dialler import PeerDialler, Use
from .peer_gauges import PeerGauges, PeerTraffic
from .peer_link import Framed, LinkReceiver, PeerLink
from .peer_messages import PeerIdentity, PeerMessage, RecordsToSend
from .replica_trace import ReplicaTrace


class PeerSink(LinkReceiver, Protocol):
    """Receives what other SPUs send, and learns of links that begin and end."""

    def on_linked(self, spu: SpuId, from_leader: bool) -> None: ...

    def on_unlinked(self, spu: SpuId, from_leader: bool) -> None: ...


class PeerLinks:
    """All links of one SPU."""

    def __init__(
        self,
        identity: PeerIdentity,
        cluster: Cluster,
        network: Network,
        chance: Chance,
        logger: FilteringBoundLogger,
        trace: ReplicaTrace | None = None,
        *,
        serve_requests: Use | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        """The cluster provides its id, its members, and the addresses of their private ports.

        `serve_requests` serves the connections of other SPUs that carry requests.
        """
        self._logger = logger
        self._trace = trace
        self._dialler = PeerDialler(identity, cluster, network, chance, partial(self._use, to_leader=True), logger, tls)
        self._acceptor = PeerAcceptor(
            identity, cluster, partial(self._use, to_leader=False), logger, serve_requests, tls
        )
        self._sink: PeerSink | None = None
        self._leaders: dict[SpuId, PeerLink] = {}
        self._followers: dict[SpuId, PeerLink] = {}
        self._unflushed: list[PeerLink] = []
        """Links with messages that wait for the next `flush`."""
        self._buffers = ReceiveBuffers()
        self._traffic: dict[SpuId, PeerTraffic] = {}

    async def run(self, sink: PeerSink, listener: Listener) -> None:
        """Dials and accepts until cancelled."""
        self._sink = sink
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._dialler.run)
            await self._acceptor.serve(listener)

    # sending

    def send_to_follower(
        self, spu: SpuId, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None
    ) -> None:
        """Queues a message on the link that this SPU has dialled as a follower, if there is one. It leaves with the
        next `flush`."""
        self._enqueue(self._followers.get(spu), key, message, records)

    def send_to_leader(
        self, spu: SpuId, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None = None
    ) -> None:
        """Queues a message on the link that this side has dialled to its leader, if there is one. It leaves with the
        next `flush`."""
        self._enqueue(self._leaders.get(spu), key, message, records)

    def _enqueue(
        self, link: PeerLink | None, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None
    ) -> None:
        if link is None:
            return
        if self._trace is not None:
            self._trace.multicast(key, message, link.peer.spu)
        link.enqueue(key, message, records)
        if not link.has_unflushed:
            link.has_unflushed = True
            self._unflushed.append(link)

    def flush(self) -> None:
        """Sends what is queued, as far as the connections take it. It is called at the end of each turn, also by the
        sink."""
        unflushed = self._unflushed
        framed: Framed | None = {} if len(unflushed) > 1 else None
        while unflushed:
            unflushed.pop().flush(framed)

    def forget(self, key: ReplicaKey) -> None:
        """Drops what waits to be sent for a replica, because its role has changed."""
        for link in self._links():
            link.forget(key)

    def take_hellos(self, key: ReplicaKey) -> Sequence[Hello]:
        """Takes the newest Hello of each linked SPU for a replica. They may have come before the leader was ready."""
        hellos = (link.hellos.pop(key, None) for link in self._followers.values())
        return [hello for hello in hellos if hello is not None]

    # dialling

    def follow(self, spu: SpuId) -> None:
        """Counts one more replica that follows the SPU, and dials the SPU if there is no link."""
        self._dialler.follow(spu)

    def unfollow(self, spu: SpuId) -> None:
        """Counts one replica less that follows the SPU. The link ends soon after the last one."""
        self._dialler.unfollow(spu)

    def is_linked(self, spu: SpuId, *, from_leader: bool) -> bool:
        return spu in (self._leaders if from_leader else self._followers)

    # state

    def keeps_up(self, spu: SpuId) -> bool:
        """Returns whether messages to this follower leave with the next `flush`. Messages that have to wait should use
        no memory."""
        link = self._followers.get(spu)
        return link is not None and link.keeps_up

    def followed(self) -> Mapping[SpuId, int]:
        """Returns how many local replicas follow each SPU."""
        return self._dialler.followed()

    def dialled_links(self, spu: SpuId) -> int:
        """Returns how many links this SPU has dialled to follow that one."""
        traffic = self._traffic.get(spu)
        return 0 if traffic is None else traffic.dialled_links

    def gauges(self, now: float) -> list[PeerGauges]:
        """Returns the gauges of each SPU to which there was ever a link."""

        def age_seconds(link: PeerLink | None) -> float | None:
            return None if link is None else now - link.since

        return [
            PeerGauges(spu, traffic, age_seconds(self._leaders.get(spu)), age_seconds(self._followers.get(spu)))
            for spu, traffic in self._traffic.items()
        ]

    def _links(self) -> Iterator[PeerLink]:
        yield from self._leaders.values()
        yield from self._followers.values()

    # one link

    async def _use(self, connection: Connection, peer: PeerIdentity, *, to_leader: bool) -> None:
        """Runs a link until it ends. It replaces an earlier link to the same SPU."""
        links = self._leaders if to_leader else self._followers
        traffic = self._traffic.setdefault(peer.spu, PeerTraffic())
        traffic.dialled_links += to_leader
        try:
            while (earlier := links.get(peer.spu)) is not None:
                earlier.close("the SPU has connected again")
                await earlier.ended.wait()
        except BaseException:
            connection.close()
            raise
        assert self._sink is not None
        link = links[peer.spu] = PeerLink(
            connection,
            peer,
            to_leader=to_leader,
            receiver=self._sink,
            buffers=self._buffers,
            traffic=traffic,
            logger=self._logger,
        )
        self._logger.info("peer_linked", spu=peer.spu, peer=str(connection.remote), leader=to_leader)
        self._sink.on_linked(peer.spu, to_leader)
        self.flush()
        try:
            await link.run()
        finally:
            del links[peer.spu]
            self._logger.info("peer_unlinked", spu=peer.spu, leader=to_leader, reason=link.closed_because)
            self._sink.on_unlinked(peer.spu, to_leader)
            self.flush()
