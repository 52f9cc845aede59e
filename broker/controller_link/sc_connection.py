"""The one connection to the Streaming Controller (SC): registers this SPU, renews its lease, comes back when it broke.

The SC may be away at any time. Requests to it wait, within the caller's patience, and clients are served all the while
from what it said last. Whatever it says after a reconnect begins with everything, so nothing has to be remembered here.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Any, Protocol

import trio
from msgspec import Struct
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

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
from tailrace.runtime.network import Address, Connection, Network
from tailrace.server.private_link import LinkClosed, PrivateLink

from .cluster_identity import ClusterIdentity
from .lease import Lease
from .reconnecting import Reconnecting

CONNECT_SECONDS_MAX = 2.0
LEAVE_SECONDS_MAX = 1.0
"""An SC that does not answer finds out by itself that this SPU has gone."""
LEASE_MS_ASSUMED = 1500
"""Where an SC refuses this SPU without saying how long its leases are."""
LATE_SECONDS_MAX = 3.0
"""An SC that answers after the lease has ended may be short of time, and another connection costs it more of that: it
has to say everything anew. One that says nothing for longer than this is gone."""
WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})

Ask = Callable[[Any], Awaitable[Any]]


class RefusedForGoodError(Exception):
    """One sentence: why this process has no place in the cluster."""


class ScUnreachableError(Exception):
    """One sentence: why no answer of the SC will come."""


class Registration(Struct, frozen=True):
    """Who this SPU says it is."""

    spu: SpuId
    incarnation: str
    """Another one each time the process starts."""
    store_incarnation: str
    """Another one when what is on disk may lack something that it had."""
    stopped_cleanly: bool
    """Whether the process before this one closed all its logs."""
    endpoints: tuple[Endpoint, ...]
    """Where clients connect. A host that stands for all of this machine's is replaced by the one that the SC sees."""
    private: Endpoint


class Receiver(Protocol):
    """Whoever carries out what the SC says."""

    def on_connecting(self, reported: tuple[Endpoint, ...]) -> None:
        """What comes next begins with everything. `reported` is where the SC hears that clients find this SPU."""

    async def handle(self, api_key: IntEnum, message: Any) -> object:
        """Answers a request of the SC. One comes after the other, but for those about replicas."""

    def heartbeat(self) -> RenewLeaseRequest:
        """What is said each time the lease is renewed."""

    async def report(self, ask: Ask) -> None:
        """Tells the SC what it should know, as long as the connection lasts."""

    def on_end(self) -> None:
        """Nothing more will come: this SPU is stopping."""


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
    ) -> None:
        self._registration = registration
        self._identity = identity
        self._lease = lease
        self._network = network
        self._receiver = receiver
        self._logger = logger
        self._reconnecting = Reconnecting(addresses, chance)
        self._link: PrivateLink | None = None
        """While this SPU is registered on it."""
        self._leaving = False
        self._ended = False
        self._changed = trio.Event()
        self._said: dict[Address, str] = {}
        """What was logged last of why there is no connection, by whom it was tried with: of several, only one leads."""

    async def request(self, message: Any) -> Any:
        """The SC's response; it is waited for until there is an SC, which the caller bounds. Raises ScUnreachableError
        when the connection breaks meanwhile: what was asked may then have been done or not."""
        while self._link is None or self._link.closed_because is not None:
            if self._ended:
                raise ScUnreachableError("this SPU is stopping")
            await self._changed.wait()
        try:
            return await self._link.ask(message)
        except LinkClosed as error:
            raise ScUnreachableError(f"the connection to the Streaming Controller broke: {error}") from error

    async def report_shelves(self, report: ReportShelvesRequest) -> ReportShelvesResponse:
        """What this SPU knows of the shelves of partitions that it leads; what comes of it, its specs will say. Waits
        and raises as `request`."""
        answer: ReportShelvesResponse = await self.request(report)
        return answer

    async def leave(self) -> None:
        """Gives the lease back, so that others lead at once; this SPU does not register again."""
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
        """Until cancelled. Raises RefusedForGoodError."""
        try:
            while not self._leaving:
                await trio.sleep(self._reconnecting.pause_seconds())
                address = self._reconnecting.address
                try:
                    with trio.fail_after(min(CONNECT_SECONDS_MAX, self._reconnecting.answer_seconds_max())):
                        connection = await self._network.connect(address)
                except (OSError, trio.TooSlowError) as error:
                    self._on_no_answer(address, error)
                else:
                    await self._use(connection, address)
            await trio.sleep_forever()
        finally:
            self._ended = True
            self._receiver.on_end()
            self._wake()

    # one connection

    async def _use(self, connection: Connection, address: Address) -> None:
        belongs_here = trio.Event()

        async def handle(api_key: IntEnum, message: Any) -> object:
            await belongs_here.wait()  # what an SC says that is not ours must not be done
            return await self._receiver.handle(api_key, message)

        link = PrivateLink(
            connection,
            serves=SPU_PRIVATE_APIS,
            asks=SC_PRIVATE_APIS,
            handle=handle,
            concurrent=frozenset({InternalApiKey.DESCRIBE_REPLICAS, InternalApiKey.DESCRIBE_REPLICA_SEGMENTS}),
            logger=self._logger,
        )
        registration = _as_seen_from(connection.local.host, self._registration)
        self._receiver.on_connecting(registration.endpoints)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run_link, link, nursery.cancel_scope)
            registered = await self._register(link, registration, address)
            if registered is not None and await self._belongs_here(registered.cluster_id, address):
                belongs_here.set()
                await self._stay(link, registered, address)
            link.close()

    async def _register(
        self, link: PrivateLink, registration: Registration, address: Address
    ) -> RegisterSpuResponse | None:
        """The SC's acceptance; None if there is none."""
        reconnecting = self._reconnecting
        try:
            with trio.fail_after(reconnecting.answer_seconds_max()):
                answer: RegisterSpuResponse = await link.ask(_message(registration))
        except LinkClosed as error:
            self._on_no_answer(address, LinkClosed(f"{error}; is this the private port (9004) of an SC?"))
            return None
        except trio.TooSlowError as error:
            self._on_no_answer(address, error)
            return None
        if answer.error_code == ErrorCode.NONE:
            return answer
        reason = answer.error_message or known_code(answer.error_code).name
        is_duplicate = answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        # That says when the other process was last heard, and so something else each time.
        if self._is_news(address, "" if is_duplicate else reason):
            self._logger.warning("registration_refused", address=str(address), reason=reason)
        if not is_duplicate:
            reconnecting.on_failed()
        elif reconnecting.on_duplicate(trio.current_time(), (answer.lease_ms or LEASE_MS_ASSUMED) / 1000):
            raise RefusedForGoodError(reason)
        return None

    async def _belongs_here(self, cluster_id: str, address: Address) -> bool:
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
        """Until the connection ends."""
        since = trio.current_time()
        self._reconnecting.on_registered()
        self._link = link
        self._said.clear()
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
            await trio.sleep_forever()  # whoever runs the link ends this, too

    async def _renew_lease(self, link: PrivateLink, lease_seconds: float, heartbeat_seconds: float) -> None:
        """Returns when the SC is silent for too long, or does not know this SPU any more. While an answer is late this
        SPU has no lease, by its own reckoning; the SC ends the connection if it has given it to somebody else."""
        renewed = trio.current_time()
        self._lease.begin(renewed + lease_seconds)
        while True:
            await trio.sleep_until(renewed + heartbeat_seconds)
            asked = trio.current_time()
            answer: RenewLeaseResponse | None = None
            with trio.move_on_after(lease_seconds + LATE_SECONDS_MAX):
                try:
                    answer = await link.ask(self._receiver.heartbeat())
                except LinkClosed:
                    await trio.sleep_forever()
            if asked <= self._lease.last_end < trio.current_time():
                self._logger.warning("lease_not_confirmed", seconds=lease_seconds)
            if answer is None:
                self._reconnecting.on_silent()
                link.close("the lease was not confirmed in time")
                return
            if answer.error_code != ErrorCode.NONE:
                link.close(f"the lease was refused: {known_code(answer.error_code).name}")
                return
            renewed = asked  # counted from the sending, as the SC counts it from the receipt
            if self._leaving:
                self._lease.begin(renewed + lease_seconds)
            else:
                self._lease.renew(renewed + lease_seconds)

    # what is said

    def _on_no_answer(self, address: Address, error: Exception) -> None:
        reason = str(error) or "it does not answer"
        if self._is_news(address, reason):
            self._logger.warning("sc_unreachable", address=str(address), reason=reason)
        self._reconnecting.on_failed()

    def _is_news(self, address: Address, reason: str) -> bool:
        """It is tried again and again; only what is new is said."""
        is_news = reason != self._said.get(address)
        self._said[address] = reason
        return is_news

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


async def _run_link(link: PrivateLink, scope: trio.CancelScope) -> None:
    await link.run()
    scope.cancel()


def _as_seen_from(local_host: str, registration: Registration) -> Registration:
    def reachable(endpoint: Endpoint) -> Endpoint:
        return replace(endpoint, host=local_host) if endpoint.host in WILDCARD_HOSTS else endpoint

    endpoints = tuple(map(reachable, registration.endpoints))
    return replace(registration, endpoints=endpoints, private=reachable(registration.private))


def _message(registration: Registration) -> RegisterSpuRequest:
    return RegisterSpuRequest(
        spu_id=registration.spu,
        incarnation=registration.incarnation,
        store_incarnation=registration.store_incarnation,
        stopped_cleanly=registration.stopped_cleanly,
        software_version=__version__,
        listeners=[RegisteredListener(each.listener, each.host, each.port) for each in registration.endpoints],
        private_host=registration.private.host,
        private_port=registration.private.port,
    )
