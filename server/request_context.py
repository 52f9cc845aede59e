"""One request of a client and the place in line of its response."""

from collections.abc import Callable, Coroutine, Sequence
from typing import NoReturn

from msgspec import Struct

from tailrace.cluster.client_view import ConnectedListener
from tailrace.protocol.codec.headers import ResponseEncoder
from tailrace.protocol.codec.primitives import Part


class EncodedBody(Struct, frozen=True):
    """A response that somebody else has encoded, in the version of the request; only the header is missing."""

    body: bytes


Reply = object | Coroutine[object, object, object] | None
"""What a handler returns: the response; None when it will respond through the context; for rare work a coroutine that
gives either."""


class ClientIdentity(Struct):
    """Who a connection says it is; the name and version come with ApiVersions v3 and later."""

    address: str
    software_name: str = "unknown"
    software_version: str = ""


def _raise(mistake: Exception) -> NoReturn:
    raise mistake


def _do_nothing() -> None:
    pass


def _answered_by_return(context: "RequestContext") -> NoReturn:
    raise AssertionError("the handler returns the response")


def _answered_elsewhere(correlation_id: int, message: object) -> NoReturn:
    raise AssertionError("whoever passed this request on answers it")


class RequestContext(Struct, eq=False):
    """A handler either returns the response, or keeps the context and calls `respond` when it is known."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    listener: ConnectedListener
    client: ClientIdentity
    arrived: float
    """By Trio's clock, in seconds."""
    _on_response: Callable[["RequestContext"], None]
    """Is told when the response is there."""
    _encode: ResponseEncoder = _answered_elsewhere
    _let_leave: Callable[[], None] = _do_nothing
    """Lets all responses leave that are there."""
    _on_failed: Callable[[Exception], None] = _raise
    """Is told when the response cannot be encoded: its version has no room for it."""
    request_count: int = 1
    """So many requests, one behind the other, are answered together; the correlation id is that of the first."""
    parts: Sequence[Part] | None = None
    close_after: str | None = None
    """Why the connection is to be closed: what is ready leaves first, and no request after this one is handled."""
    abandon: Callable[[], None] | None = None
    """Set by whoever keeps this context waiting; called when the client has gone."""
    hurry: Callable[[], None] | None = None
    """Set by whoever could respond now and waits for more; called when an urgent one waits behind this one."""

    def respond(self, message: object) -> None:
        self.prepare(message)()

    def respond_with(self, parts: Sequence[Part]) -> None:
        """Responds with bytes that are encoded already."""
        self.prepare_with(parts)()

    def respond_each(self, messages: Sequence[tuple[int, object]]) -> None:
        """To several requests that are answered together: to each, by its correlation id."""
        self._prepare_each(messages)()

    def prepare(self, message: object) -> Callable[[], None]:
        """The response leaves with any that is ready later, or when what this returns is called: it is the same for all
        of one client. Whoever has several prepares them all first, so that those to one client leave together."""
        return self._prepare_each(((self.correlation_id, message),))

    def _prepare_each(self, messages: Sequence[tuple[int, object]]) -> Callable[[], None]:
        try:
            parts = [part for correlation_id, each in messages for part in self._encode(correlation_id, each)]
        except Exception as mistake:
            # Whoever is here may have answers for others, and a log to write.
            self.abandon = self.hurry = None
            self._on_failed(mistake)
            return _do_nothing
        return self.prepare_with(parts)

    def prepare_with(self, parts: Sequence[Part]) -> Callable[[], None]:
        """As `prepare`, with bytes that are encoded already."""
        assert self.parts is None, "a request has one response"
        self.parts = parts
        self.abandon = self.hurry = None
        self._on_response(self)
        return self._let_leave

    def respond_nothing(self, *, close: str | None = None) -> None:
        """Ends a request that has no response (acks=0); `close` gives the reason to close the connection for."""
        self.close_after = close
        self.respond_with(())


def request_without_connection(api_key: int, api_version: int, client: str) -> RequestContext:
    """For a handler that answers at once, or as a coroutine: whoever calls it has the response."""
    return RequestContext(
        api_key,
        api_version,
        0,
        None,
        ConnectedListener("PRIVATE", ("", 0)),
        ClientIdentity(client),
        0.0,
        _answered_by_return,
    )
