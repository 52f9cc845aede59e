"""Keeps a connection to each SPU that this one follows, while any replica follows it and a moment longer.

It retries with growing pauses, and logs each reason once.
"""

import math
from collections.abc import Awaitable, Callable, Mapping

import trio
from msgspec import Struct, field

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection, Network
from tailrace.security.identity.server_names import spu_name
from tailrace.server.encryption.server_links import connect_to_server
from tailrace.server.encryption.server_tls import ServerTls

from .peer_addresses import private_address
from .peer_handshake import INTRODUCTION_SECONDS_MAX, RefusedError, introduce
from .peer_messages import PeerIdentity

CONNECT_SECONDS_MAX = 2.0
STABLE_SECONDS = 1.0
"""A link that lasted less than this counts as a failure, so that retries slow down."""
UNUSED_SECONDS_MAX = 1.0
"""How long an unused link stays. A new epoch of the same leader ends one role and begins another, and the log may be
changed between them. If the link were closed in this time, nothing could be committed until there is another one."""

Use = Callable[[Connection, PeerIdentity], Awaitable[None]]
"""Uses an introduced connection until it ends, and closes it."""


class _Leader(Struct):
    """An SPU that some replicas follow."""

    replicas: int = 0
    dialling: trio.CancelScope = field(default_factory=trio.CancelScope)
    logged_reason: str | None = None
    """The reason that was logged last for a missing link."""


class PeerDialler:
    """The dialling side of the links."""

    def __init__(
        self,
        identity: PeerIdentity,
        cluster: Cluster,
        network: Network,
        chance: Chance,
        use: Use,
        logger: FilteringBoundLogger,
        tls: ServerTls | None = None,
    ) -> None:
        self._identity = identity
        self._cluster = cluster
        self._network = network
        self._chance = chance
        self._use = use
        self._logger = logger
        self._tls = tls
        self._nursery: trio.Nursery | None = None
        self._leaders: dict[SpuId, _Leader] = {}

    def follow(self, spu: SpuId) -> None:
        """Counts one more replica that follows the SPU, and dials the SPU if there is no link."""
        assert spu != self._identity.spu, "no SPU follows itself"
        leader = self._leaders.get(spu)
        if leader is None:
            leader = self._leaders[spu] = _Leader()
            if self._nursery is not None:
                self._nursery.start_soon(self._keep_linked, spu, leader)
        leader.replicas += 1
        leader.dialling.deadline = math.inf

    def unfollow(self, spu: SpuId) -> None:
        """Counts one replica less that follows the SPU. The link ends soon after the last one."""
        leader = self._leaders[spu]
        leader.replicas -= 1
        if leader.replicas == 0:
            leader.dialling.deadline = trio.current_time() + UNUSED_SECONDS_MAX

    def followed(self) -> Mapping[SpuId, int]:
        """Returns how many replicas follow each SPU."""
        return {spu: leader.replicas for spu, leader in self._leaders.items() if leader.replicas}

    async def run(self) -> None:
        """Dials until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for spu, leader in self._leaders.items():
                    nursery.start_soon(self._keep_linked, spu, leader)
                await trio.sleep_forever()
        finally:
            self._nursery = None

    async def _keep_linked(self, spu: SpuId, leader: _Leader) -> None:
        """Keeps a link until no replica follows the SPU any more."""
        failures = 0
        while leader.replicas:
            with trio.CancelScope() as leader.dialling:
                await trio.sleep(spread_pause_seconds(failures, self._chance))
                lived_seconds = await self._dial(spu, leader)
                failures = 0 if lived_seconds >= STABLE_SECONDS else failures + 1
        del self._leaders[spu]

    async def _dial(self, spu: SpuId, leader: _Leader) -> float:
        """Dials once and uses the link; returns how long it lasted."""
        address = private_address(self._cluster, spu)
        if address is None:
            if self._cluster.spus:  # at the start, specs of replicas come before the metadata of the cluster
                self._on_unreachable(leader, spu, "the address of its private port is not known")
            return 0.0
        try:
            with trio.fail_after(CONNECT_SECONDS_MAX):
                connection = await connect_to_server(self._network, address, spu_name(spu), self._tls)
        except (OSError, trio.TooSlowError) as error:
            self._on_unreachable(leader, spu, str(error) or f"{address} does not answer")
            return 0.0
        peer = await self._introduced(connection, spu, leader)
        if peer is None:
            return 0.0
        since = trio.current_time()
        leader.logged_reason = None
        await self._use(connection, peer)
        return trio.current_time() - since

    async def _introduced(self, connection: Connection, spu: SpuId, leader: _Leader) -> PeerIdentity | None:
        """Returns the SPU that answers; None, with the connection closed, if it is not the wanted one."""
        peer = None
        try:
            with trio.fail_after(INTRODUCTION_SECONDS_MAX):
                peer = await introduce(connection, self._identity, self._cluster, spu)
        except RefusedError as refusal:
            self._on_refused(leader, spu, str(refusal))
        except (RemoteProtocolError, OSError, trio.TooSlowError) as error:
            self._on_unreachable(leader, spu, str(error) or f"{connection.remote} did not introduce itself in time")
        finally:
            if peer is None:
                connection.close()
        return peer

    def _on_unreachable(self, leader: _Leader, spu: SpuId, reason: str) -> None:
        if self._is_news(leader, reason):
            self._logger.warning("peer_unreachable", spu=spu, reason=reason)

    def _on_refused(self, leader: _Leader, spu: SpuId, reason: str) -> None:
        if self._is_news(leader, reason):
            self._logger.warning("peer_refused", spu=spu, reason=reason)

    def _is_news(self, leader: _Leader, reason: str) -> bool:
        """Returns whether the reason has changed, because retries repeat it."""
        is_news = reason != leader.logged_reason
        leader.logged_reason = reason
        return is_news
