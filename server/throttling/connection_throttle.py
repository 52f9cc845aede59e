"""The quotas of one connection: which meters its client has, and until when it is muted.

A muted connection does not handle requests. Its client was told to wait, and newer clients do; others find that they
get no responses.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import CoroutineType
from typing import Any

from tailrace.protocol.apis import Api
from tailrace.protocol.codec.headers import ResponseEncoder
from tailrace.security.identity.principal import Principal
from tailrace.server.inbox import ArrivedRequests
from tailrace.server.request_context import ClientIdentity, Reply, RequestContext

from .counted_requests import CountedRequests
from .measured_request import MeasuredRequest
from .request_mutations import RequestMutations
from .server_quotas import ClientMeters, ServerQuotas


class ConnectionThrottle:
    """The quotas that apply to the client of one connection."""

    __slots__ = (
        "_client",
        "_client_id",
        "_generation",
        "_is_known",
        "_meters",
        "_principal",
        "is_muted",
        "muted_until",
        "quotas",
    )

    def __init__(self, quotas: ServerQuotas, client: ClientIdentity) -> None:
        self.quotas = quotas
        self._client = client
        self._client_id: str | None = None
        self._principal: Principal = client.principal
        self._is_known = False
        """Whether a request has told the client id."""
        self._generation = -1
        self._meters: ClientMeters | None = None
        self.is_muted = False
        """Whether the connection handles no requests. It stays true until `waiting` notices that the time is over."""
        self.muted_until = 0.0
        """The time, in seconds, until which the connection is muted."""

    # called for each turn and request while any client has quotas

    @property
    def is_known(self) -> bool:
        """Whether a request has told who the client is, and neither that nor the quotas have changed since."""
        return (
            self._is_known
            and self._generation == self.quotas.generation
            and (self._principal is self._client.principal or self._principal == self._client.principal)
        )

    def is_from(self, client_id: str | None) -> bool:
        """Whether a request with this client id comes from the client that is known."""
        return self.is_known and self._client_id == client_id

    @property
    def limits_produce(self) -> bool:
        """Whether produce requests of the client that is known have to be measured or counted."""
        meters = self._meters
        return meters is not None and (meters.produced is not None or meters.time is not None)

    def count(self, arrived: ArrivedRequests, request_bytes: int) -> CountedRequests | None:
        """Begins to count a produce request, and those that have arrived behind it, of the client that is known.

        Returns None if they have to be measured: the time of the client counts, or it is about to exceed its quota.
        """
        meters = self._meters
        if meters is None or meters.time is not None or meters.produced is None:
            return None
        now_ms = self.quotas.now_ms()
        room = meters.produced.room(now_ms)
        if request_bytes > room:
            return None
        return CountedRequests(arrived, request_bytes, meters.produced, room, now_ms)

    def measure(
        self, api: Api, api_version: int, client_id: str | None, request_bytes: int, encode: ResponseEncoder
    ) -> MeasuredRequest | None:
        """Begins to measure a request; returns None if its client has no quota."""
        meters = self._find(client_id)
        if meters is None:
            return None
        return MeasuredRequest(self.quotas, meters, api, api_version, request_bytes, encode, self._mute)

    def handle(
        self,
        context: RequestContext,
        measured: MeasuredRequest,
        handle: Callable[[RequestContext, Any], Reply],
        request: object,
    ) -> Awaitable[object] | None:
        """Handles a request that is measured; returns the handler's coroutine if the work is rare."""
        context.meter = measured
        context.mutations = self.mutations(context.api_key, context.api_version, context.client_id)
        reply = handle(context, request)
        if isinstance(reply, CoroutineType):
            measured.handled()
            return _end_rare_work(context, measured, reply)
        if reply is not None:
            context.respond(reply)
        measured.handled()
        if _has_no_response(context):
            measured.end_without_response()
        return None

    def mutations(self, api_key: int, api_version: int, client_id: str | None) -> RequestMutations | None:
        """Returns what a request may change; None if there is no bound."""
        if self._meters is None or self._meters.mutations is None:
            return None
        return self.quotas.mutations(self._client.principal, client_id, api_key, api_version)

    def _find(self, client_id: str | None) -> ClientMeters | None:
        quotas, principal, login = self.quotas, self._client.principal, self._client.login
        if login is not None and not login.has_logged_in:
            return None  # nothing that belongs to a login is throttled
        if not self.is_from(client_id):
            self._meters = quotas.find(principal, client_id)
            self._client_id, self._principal, self._is_known = client_id, principal, True
            self._generation = quotas.generation
        return self._meters

    # muting

    def _mute(self, throttle_ms: int) -> None:
        self.is_muted = True
        self.muted_until = max(self.muted_until, self.quotas.now() + throttle_ms / 1000)

    @contextmanager
    def waiting(self) -> Iterator[Callable[[], bool]]:
        """Counts the connection as muted meanwhile. Yields a function that returns whether the time is over."""
        self.quotas.metrics.muted_connections += 1
        try:
            yield self._is_over
        finally:
            self.quotas.metrics.muted_connections -= 1

    def _is_over(self) -> bool:
        self.is_muted = self.quotas.now() < self.muted_until
        return not self.is_muted


async def _end_rare_work(context: RequestContext, measured: MeasuredRequest, work: Awaitable[object]) -> object:
    reply = await work
    if _has_no_response(context):
        measured.end_without_response()
    return reply


def _has_no_response(context: RequestContext) -> bool:
    """Whether the request has ended without a response (acks=0)."""
    return context.parts is not None and not context.parts
