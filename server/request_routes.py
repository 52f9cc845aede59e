"""What a client's connection and its server need from each other: routes of requests, shortcuts and permissions."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from tailrace.protocol.codec.compile import Decoder
from tailrace.protocol.codec.headers import ResponseEncoder
from tailrace.runtime.files import UnreadableError

from .inbox import ArrivedRequests
from .request_context import ClientIdentity, Reply, RequestContext


class ExpectResponse(Protocol):
    """Reserves the place in line of one response, or of `request_count` responses that are sent together."""

    def __call__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        encode: ResponseEncoder,
        request_count: int = 1,
    ) -> RequestContext: ...


class JointResponse(NamedTuple):
    """The encoded responses to a request and to the following requests that were handled with it."""

    encoded: bytes
    request_count: int


Shortcut = Callable[[memoryview, int, ExpectResponse, ArrivedRequests], bytes | JointResponse | RequestContext | None]
"""Handles a request from its bytes, without decoding it into objects.

The arguments are the frame, its correlation id, a function that reserves a place in line, and the requests behind this
one, which the shortcut may handle as well. It returns the encoded response, or the context through which it
will respond later. It returns None, and has changed nothing, if the request needs the ordinary handler.
"""

MayProduce = Callable[[str | UUID, str | None], bool]
"""Whether a client may write to a topic, given by name or id, with a transactional id or without."""
NewShortcut = Callable[[MayProduce | None], Shortcut]
"""Makes the shortcut of one connection. The argument is None if there is no authorizer."""


class Guarding(Protocol):
    """The permissions of clients, if the server has an authorizer."""

    @property
    def version(self) -> int:
        """A number that changes whenever a permission may change."""

    def guarded(self, api_key: int, handle: Callable[[RequestContext, Any], Reply]) -> Callable[..., Reply]:
        """Returns the handler of an API with a guard around it."""

    def may_produce(self, client: ClientIdentity, topic: str | UUID, transactional_id: str | None) -> bool:
        """Whether a client may write to a topic, with a transactional id or without."""


class Route(NamedTuple):
    """How the requests of one API and version are decoded and handled."""

    decode: Decoder
    handle: Callable[[RequestContext, Any], Reply]
    new_shortcut: NewShortcut | None = None
    """Makes the shortcut of one connection; None if the API has no shortcut."""


class ResolvedRoute(NamedTuple):
    """A route with the encoder of its responses, so that a request needs a single lookup."""

    decode: Decoder
    handle: Callable[[RequestContext, Any], Reply]
    encode: ResponseEncoder
    new_shortcut: NewShortcut | None


class Dispatcher(Protocol):
    """What a connection needs from its server."""

    def route(self, api_key: int, api_version: int) -> Route | None:
        """Returns how requests of this version are decoded and handled; None if this server does not support it."""

    def partition_count(self) -> int:
        """Returns how many partitions the cluster has, which says how large a request may have to be."""

    def end_turn(self) -> None:
        """Wakes the requests that wait for what the turn appended.

        A connection calls this once after the requests of a turn. Several connections may share one call.
        """

    def on_unreadable(self, error: UnreadableError) -> None:
        """Takes note that a file could not be read while it was sent to a client.

        It may be called in the middle of a turn, while other clients are being sent their responses.
        """
