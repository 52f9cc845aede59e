"""The connection to the Streaming Controller (SC): registration, lease, and reconnects.

The SC may be unreachable at any time. Requests to it then wait, and clients are served from the last specs and
metadata. After each reconnect the SC first sends all specs and all metadata, so the connection has no state to restore.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace import __version__
from tailrace.cluster.specs import Endpoint
from tailrace.protocol.error_codes import ErrorCode, known_code
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.leave import LeaveRequest
from tailrace.protocol.internal.register_spu import RegisteredListener, RegisterSpuRequest, RegisterSpuResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest, RenewLeaseResponse
from tailrace.protocol.internal.report_shelves import ReportShelvesRequest, ReportShelvesResponse
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, SPU_PRIVATE_APIS, InternalApiKey
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import WILDCARD_HOSTS, Address, Connection, Network
from tailrace.security.identity.server_names import SC_NAME
from tailrace.server.encryption.server_links import connect_to_server
from tailrace.server.encryption.server_tls import ServerTls
from tailrace.server.private_link import LinkClosed, PrivateLink
from tailrace.server.request_context import PLAINTEXT

from .cluster_identity import ClusterIdentity
from .lease import Lease
from .reconnecting import Reconnecting

CONNECT_SECONDS_MAX = 2.0
"""How long to wait for a connection."""
LEAVE_SECONDS_MAX = 1.0
"""How long to wait for the response to Leave. Without it, the SC notices the end of this SPU by its lease."""
CONCURRENT = frozenset(
    {InternalApiKey.DESCRIBE_REPLICAS, InternalApiKey.DESCRIBE_REPLICA_SEGMENTS, InternalApiKey.APPEND_AUDIT}
)
"""The requests of the SC that are handled concurrently, because they take long or wait for other requests."""
LEASE_MS_ASSUMED = 1500
"""The duration of a lease if an SC refuses this SPU and does not name it."""
LATE_SECONDS_MAX = 3.0
"""How long after the end of the lease this SPU still waits for the response to its heartbeat.

An SC that responds late may be overloaded. Another connection would cost it more time, because it would have to send
all specs and metadata again.
"""

Ask = Callable[[Any], Awaitable[Any]]


class RefusedForGoodError(Exception):
    """This process must not join the cluster, for a reason given in one sentence."""


class ScUnreachableError(Exception):
    """The SC will not respond, for a reason given in one sentence."""


class Registration(Struct, frozen=True):
    """The identity and the addresses with which this SPU registers."""

    spu: SpuId
    incarnation: str
    """The process incarnation, which is new each time the process starts."""
    store_incarnation: str
    """The store incarnation, which changes when the store may have lost something."""
    stopped_cleanly: bool
    """Whether the previous process closed all its logs."""
    endpoints: tuple[Endpoint, ...]
    """The addresses for clients. A wildcard host is replaced by the local address of the connection to the SC."""
    private: Endpoint
    """The address for other SPUs."""
    protocols: Mapping[str, str] = {}
    """Kafka's names of the protocols of the listeners that are not PLAINTEXT."""


class Receiver(Protocol):
    """Handles what the SC sends."""

    def on_connecting(self, reported: tuple[Endpoint, ...]) -> None:
        """Expects all specs and metadata next. `reported` are the addresses that this SPU reports for clients."""

    async def handle(self, api_key: IntEnum, message: Any) -> object:
        """Handles a request of the SC. Requests come one after the other, except those that describe replicas."""

    def heartbeat(self) -> RenewLeaseRequest:
        """Returns the message with which to renew the lease."""

    async def report(self, ask: Ask) -> None:
        """Sends reports to the SC until the connection ends."""

    def on_end(self) -> None:
        """Notes that nothing more will come, because this SPU is stopping."""


class ScConnection:
    def __init__(
        self,
        registration: Registration,
        addresses: Sequence[Address],
        network: Network,
        chance: Chance,
        receiver: Receiver,
        identity: ClusterIdentity,
        lease: Lease,
        logger: FilteringBoundLogger,
        tls: ServerTls | None = None,
    ) -> None:
        self._tls = tls
        self._registration = registration
        self._identity = identity
        self._lease = lease
        self._network = network
        self._receiver = receiver
        self._logger = logger
        self._reconnecting = Reconnecting(addresses, chance)
        self._link: PrivateLink | None = None
        """The connection on which this SPU is registered, or None."""
        self._leaving = False
        self._ended = False
        self._changed = trio.Event()
        self._logged_reason: dict[Address, str] = {}
        """The last logged reason for each address why there is no connection. Of several SCs, only one accepts SPUs."""

    async def request(self, message: Any) -> Any:
        """Sends a request and returns the SC's response. Waits until there is an SC, so the caller has to set a
        timeout.

        Raises ScUnreachableError if the connection breaks. The request may then have been carried out or not.
        """
        while self._link is None or self._link.closed_because is not None:
            if self._ended:
                raise ScUnreachableError("this SPU is stopping")
            await self._changed.wait()
        try:
            return await self._link.ask(message)
        except LinkClosed as error:
            raise ScUnreachableError(f"the connection to the Streaming Controller broke: {error}") from error

    async def report_shelves(self, report: ReportShelvesRequest) -> ReportShelvesResponse:
        """Reports the shelves of partitions that this SPU leads. The SC's decisions come with the specs.

        Waits and raises like `request`.
        """
        response: ReportShelvesResponse = await self.request(report)
        return response

    async def leave(self) -> None:
        """Gives the lease back, so that other SPUs lead at once. This SPU does not register again."""
        self._leaving = True
        self._lease.lose()
        link = self._link
        if link is not None:
            with trio.move_on_after(LEAVE_SECONDS_MAX):
                try:
                    await link.ask(LeaveRequest())
                except LinkClosed as error:
                    self._logger.debug("lease_not_given_back", reason=str(error))

    async def run(self) -> None:
        """Connects, registers and reconnects until cancelled. Raises RefusedForGoodError."""
        try:
            while not self._leaving:
                await trio.sleep(self._reconnecting.pause_seconds())
                address = self._reconnecting.address
                try:
                    with trio.fail_after(min(CONNECT_SECONDS_MAX, self._reconnecting.response_seconds_max())):
                        connection = await connect_to_server(self._network, address, SC_NAME, self._tls)
                except (OSError, trio.TooSlowError) as error:
                    self._on_unreachable(address, error)
                else:
                    await self._use(connection, address)
            await trio.sleep_forever()
        finally:
            self._ended = True
            self._receiver.on_end()
            self._wake()

    # one connection

    async def _use(self, connection: Connection, address: Address) -> None:
        is_accepted = trio.Event()

        async def handle(api_key: IntEnum, message: Any) -> object:
            await is_accepted.wait()  # an SC of another cluster must not have an effect
            return await self._receiver.handle(api_key, message)

        link = PrivateLink(
            connection,
            serves=SPU_PRIVATE_APIS,
            asks=SC_PRIVATE_APIS,
            handle=handle,
            concurrent=CONCURRENT,
            logger=self._logger,
        )
        registration = _as_seen_from(connection.local.host, self._registration)
        self._receiver.on_connecting(registration.endpoints)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run_link, link, nursery.cancel_scope)
            registered = await self._register(link, registration, address)
            if registered is not None and await self._check_identity(registered.cluster_id, address):
                is_accepted.set()
                await self._stay(link, registered, address)
            link.close()

    async def _register(
        self, link: PrivateLink, registration: Registration, address: Address
    ) -> RegisterSpuResponse | None:
        """Registers this SPU. Returns the SC's response, or None if the SC did not accept the SPU."""
        reconnecting = self._reconnecting
        try:
            with trio.fail_after(reconnecting.response_seconds_max()):
                response: RegisterSpuResponse = await link.ask(_message(registration))
        except LinkClosed as error:
            self._on_unreachable(address, LinkClosed(f"{error}; is this the private port (9004) of an SC?"))
            return None
        except trio.TooSlowError as error:
            self._on_unreachable(address, error)
            return None
        if response.error_code == ErrorCode.NONE:
            return response
        reason = response.error_message or known_code(response.error_code).name
        is_duplicate = response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        # The message names the time of the other process's last heartbeat, so it is different each time.
        if self._is_news(address, "" if is_duplicate else reason):
            self._logger.warning("registration_refused", address=str(address), reason=reason)
        if not is_duplicate:
            reconnecting.on_failed()
        elif reconnecting.on_duplicate(trio.current_time(), (response.lease_ms or LEASE_MS_ASSUMED) / 1000):
            raise RefusedForGoodError(reason)
        return None

    async def _check_identity(self, cluster_id: str, address: Address) -> bool:
        refusal = self._identity.refusal(cluster_id)
        if refusal is None:
            try:
                await self._identity.remember(cluster_id)
            except OSError as error:
                raise RefusedForGoodError(f"the data directory cannot be written to: {error}") from error
            return True
        if not self._reconnecting.was_registered:
            raise RefusedForGoodError(refusal)
        if self._is_news(address, refusal):
            self._logger.error("registration_refused", address=str(address), reason=refusal)
        self._reconnecting.on_failed()
        return False

    async def _stay(self, link: PrivateLink, accepted: RegisterSpuResponse, address: Address) -> None:
        """Stays registered until the connection ends."""
        since = trio.current_time()
        self._reconnecting.on_registered()
        self._link = link
        self._logged_reason.clear()
        self._logger.info("sc_connected", address=str(address), cluster_id=accepted.cluster_id)
        self._wake()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._report, link)
                await self._renew_lease(link, accepted.lease_ms / 1000, accepted.heartbeat_ms / 1000)
                nursery.cancel_scope.cancel()
        finally:
            self._link = None
            self._lease.lose()
            self._reconnecting.on_lost(trio.current_time() - since)
            if not self._leaving:
                self._logger.warning("sc_lost", address=str(address), reason=link.closed_because)

    async def _report(self, link: PrivateLink) -> None:
        try:
            await self._receiver.report(link.ask)
        except LinkClosed:
            await trio.sleep_forever()  # the task that runs the link cancels this one

    async def _renew_lease(self, link: PrivateLink, lease_seconds: float, heartbeat_seconds: float) -> None:
        """Renews the lease. Returns when the SC is silent for too long, or refuses the lease.

        While a response is late, this SPU counts its lease as ended. If the SC has given the lease to another process,
        it closes the connection.
        """
        renewed = trio.current_time()
        self._lease.begin(renewed + lease_seconds)
        while True:
            await trio.sleep_until(renewed + heartbeat_seconds)
            sent = trio.current_time()
            response: RenewLeaseResponse | None = None
            with trio.move_on_after(lease_seconds + LATE_SECONDS_MAX):
                try:
                    response = await link.ask(self._receiver.heartbeat())
                except LinkClosed:
                    await trio.sleep_forever()
            if sent <= self._lease.last_end < trio.current_time():
                self._logger.warning("lease_not_confirmed", seconds=lease_seconds)
            if response is None:
                self._reconnecting.on_silent()
                link.close("the lease was not confirmed in time")
                return
            if response.error_code != ErrorCode.NONE:
                link.close(f"the lease was refused: {known_code(response.error_code).name}")
                return
            renewed = sent  # counted from the time of sending, because the SC counts from the later time of receipt
            if self._leaving:
                self._lease.begin(renewed + lease_seconds)
            else:
                self._lease.renew(renewed + lease_seconds)

    # logging

    def _on_unreachable(self, address: Address, error: Exception) -> None:
        reason = str(error) or "it does not respond"
        if self._is_news(address, reason):
            self._logger.warning("sc_unreachable", address=str(address), reason=reason)
        self._reconnecting.on_failed()

    def _is_news(self, address: Address, reason: str) -> bool:
        """Returns whether the reason is new for this address. Attempts repeat, and only a new reason is logged."""
        is_news = reason != self._logged_reason.get(address)
        self._logged_reason[address] = reason
        return is_news

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


async def _run_link(link: PrivateLink, scope: trio.CancelScope) -> None:
    await link.run()
    scope.cancel()


def _as_seen_from(local_host: str, registration: Registration) -> Registration:
    def reachable(endpoint: Endpoint) -> Endpoint:
        if endpoint.host not in WILDCARD_HOSTS:
            return endpoint
        return replace(endpoint, host=local_host, on_all_addresses=True)

    endpoints = tuple(map(reachable, registration.endpoints))
    return replace(registration, endpoints=endpoints, private=reachable(registration.private))


def _message(registration: Registration) -> RegisterSpuRequest:
    return RegisterSpuRequest(
        spu_id=registration.spu,
        incarnation=registration.incarnation,
        store_incarnation=registration.store_incarnation,
        stopped_cleanly=registration.stopped_cleanly,
        software_version=__version__,
        listeners=[
            RegisteredListener(
                each.listener,
                each.host,
                each.port,
                each.on_all_addresses,
                registration.protocols.get(each.listener, PLAINTEXT),
            )
            for each in registration.endpoints
        ],
        private_host=registration.private.host,
        private_port=registration.private.port,
        private_security_protocol=registration.protocols.get(registration.private.listener, PLAINTEXT),
    )
