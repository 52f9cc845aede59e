"""One request of a client, and the place in line of its response."""

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from uuid import UUID

from msgspec import Struct

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.protocol.codec.headers import ResponseEncoder
from tailrace.protocol.codec.primitives import Part
from tailrace.protocol.error_codes import KafkaError
from tailrace.security.identity.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest

PLAINTEXT = "PLAINTEXT"
"""Kafka's name of the security protocol without encryption and authentication."""


class EncodedBody(Struct, frozen=True):
    """A response that another server has encoded in the version of the request; only the header is missing."""

    body: bytes


Reply = object | Coroutine[object, object, object] | None
"""What a handler returns: the response, None if it responds through the context, or a coroutine for rare work.

The coroutine returns the response or None.
"""


class ClientIdentity(Struct):
    """What is known of the client of a connection; clients send name and version with ApiVersions v3 and later."""

    address: str
    """The host and port of the client."""
    software_name: str = "unknown"
    software_version: str = ""
    connection: int = 0
    """The number of the connection. Later connections to this process have higher numbers; 0 if there is none."""
    principal: Principal = ANONYMOUS
    """Who the client has proven to be."""
    host: str = ""
    """The address of the client without its port; empty if there is no connection."""
    protocol: str = PLAINTEXT
    """Kafka's name of the security protocol of the listener, such as `SASL_SSL`."""
    mechanism: str = ""
    """The SASL mechanism with which the client has authenticated; empty without SASL."""
    is_token: bool = False
    """Whether the client has authenticated with a delegation token."""
    login: "ClientLogin | None" = None
    """How the client logs in; None if its listener does not use SASL."""
    access: object = None
    """What the client may do, an `Access`; None until the first request that needs a permission."""


class ClientLogin(Protocol):
    """The login of a client with SASL, as its connection and the handlers see it."""

    @property
    def message_bytes_max(self) -> int:
        """The largest request before the client has logged in."""

    @property
    def has_logged_in(self) -> bool:
        """Whether the client has ever logged in on this connection."""

    @property
    def takes_raw_token(self) -> bool:
        """Whether the next bytes have no header of a request, as older clients send them."""

    def is_open(self, now: float) -> bool:
        """Whether the client may send any request."""

    def check(self, api_key: int, now: float) -> str | None:
        """Returns why the connection closes if the client sends this request now; None if the client may send it.

        Raises RemoteProtocolError if the client has not followed the protocol.
        """

    def shake(self, context: "RequestContext", request: "SaslHandshakeRequest") -> Reply:
        """Answers SaslHandshake."""

    def authenticate(self, context: "RequestContext", request: "SaslAuthenticateRequest") -> Reply:
        """Answers SaslAuthenticate."""

    async def authenticate_raw(self, context: "RequestContext", token: bytes) -> bytes | None:
        """Answers bytes without a header of a request; returns None if the connection closes without an answer."""


class TopicViewer(Protocol):
    """Which topics a client may see."""

    @property
    def version(self) -> int:
        """A number that changes whenever the answers may change."""

    def may_describe(self, topic: str) -> bool:
        """Whether the client may see a topic."""


class RequestMeter(Protocol):
    """Measures one request of a client with quotas. Fetches ask it how many records the client may have."""

    def resumed(self) -> None:
        """Takes note that work on the request goes on, after `handled` was called."""

    def handled(self) -> None:
        """Takes note that the request is answered already or waits, so that its time does not count."""

    @property
    def bytes_max(self) -> int:
        """The most bytes that a response may have without certain throttling."""

    def hold_back(self, record_bytes: int) -> int:
        """Counts the records of the response. Returns for how many milliseconds the client is throttled.

        If that is not 0, the records are not sent and do not count, so that the response has none.
        """


class MutationQuota(Protocol):
    """What the client may change with one request, if it has a quota on changes of the cluster (KIP-599)."""

    @property
    def throttle_ms(self) -> int:
        """For how many milliseconds the client is throttled because of this request."""

    def take(self, changes: int) -> KafkaError | None:
        """Counts changes of partitions that are about to be made. Returns the refusal if the quota is used up."""

    def give_back(self, changes: int) -> None:
        """Takes back what was counted for changes that were not made."""


def _raise(error: Exception) -> NoReturn:
    raise error


def _do_nothing() -> None:
    pass


def _answered_by_return(context: "RequestContext") -> NoReturn:
    raise AssertionError("a handler without a connection must return the response")


def _encoded_elsewhere(correlation_id: int, message: object) -> NoReturn:
    raise AssertionError("a forwarded request has no encoder: its sender encodes the response")


class RequestContext(Struct, eq=False):
    """One request; its handler returns the response, or keeps the context and calls `respond` later."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    listener: ConnectedListener
    client: ClientIdentity
    arrived: float
    """When the request arrived, in seconds of Trio's clock."""
    _on_response: Callable[["RequestContext"], None]
    """Called when the response is ready."""
    _encode: ResponseEncoder = _encoded_elsewhere
    _send_ready: Callable[[], None] = _do_nothing
    """Sends the responses of this connection that are ready."""
    _on_failed: Callable[[Exception], None] = _raise
    """Called if the response cannot be encoded because its version has no field for a value."""
    request_count: int = 1
    """The number of consecutive requests that are answered together; the correlation id is that of the first."""
    parts: Sequence[Part] | None = None
    """The encoded response; None until it is ready."""
    close_after: str | None = None
    """Why the connection closes after the responses that are ready; None if it stays open."""
    abandon: Callable[[], None] | None = None
    """Called when the client has left; set by the code that keeps this request waiting."""
    meter: RequestMeter | None = None
    """Measures the request; None if its client has no quota."""
    mutations: MutationQuota | None = None
    """What the request may change; None if there is no bound."""
    hurry: Callable[[], None] | None = None
    """Called when an urgent response waits behind this one; set by a long poll that could respond at any time."""
    amend: Callable[[Any], Any] | None = None
    """Changes the response before it is encoded; set by a guard that has removed a part of the request."""
    may_read: Callable[[str | UUID], bool] | None = None
    """Whether the client may read a topic, by its name or id; None if it may read all. May raise KafkaError."""
    viewer: TopicViewer | None = None
    """Which topics the client may see, for a request that subscribes to a pattern; None if it may see all."""
    throttle_ms: int = 0
    """How long the client has to wait because of topics that its request has created."""
    must_close: str | None = None
    """Why the connection closes after a request without a response; None if it may stay open."""

    def respond(self, message: object) -> None:
        """Responds with `message`."""
        self.prepare(message)()

    def respond_with(self, parts: Sequence[Part]) -> None:
        """Responds with an encoded response."""
        self.prepare_with(parts)()

    def respond_each(self, messages: Sequence[tuple[int, object]]) -> None:
        """Responds to several requests that are answered together, given as pairs of correlation id and message."""
        self._prepare_each(messages)()

    def prepare(self, message: object) -> Callable[[], None]:
        """Makes the response ready and returns a function that sends it; the function is the same for one client.

        A caller with several responses prepares all of them before it sends them, so that those to the same client
        leave together.
        """
        return self._prepare_each(((self.correlation_id, message),))

    def _prepare_each(self, messages: Sequence[tuple[int, object]]) -> Callable[[], None]:
        try:
            if self.amend is not None:
                messages = [(correlation_id, self.amend(each)) for correlation_id, each in messages]
            parts = [part for correlation_id, each in messages for part in self._encode(correlation_id, each)]
        except Exception as error:
            # The caller may have responses for others and a log to write, so this ends only the one connection.
            self.abandon = self.hurry = None
            self._on_failed(error)
            return _do_nothing
        return self.prepare_with(parts)

    def prepare_with(self, parts: Sequence[Part]) -> Callable[[], None]:
        """Makes an encoded response ready and returns a function that sends it (see `prepare`)."""
        assert self.parts is None, "a request has one response"
        self.parts = parts
        self.abandon = self.hurry = None
        self._on_response(self)
        return self._send_ready

    def respond_nothing(self, *, close: str | None = None) -> None:
        """Ends a request that has no response (acks=0); if `close` gives a reason, the connection closes as well."""
        self.close_after = close or self.must_close
        self.respond_with(())


def request_without_connection(
    api_key: int, api_version: int, client: ClientIdentity, client_id: str | None = None
) -> RequestContext:
    """Makes a context for a handler that returns its response, directly or through a coroutine."""
    return RequestContext(
        api_key,
        api_version,
        0,
        client_id,
        ConnectedListener("PRIVATE", ("", 0)),
        client,
        0.0,
        _answered_by_return,
    )
