"""The login of one connection: handshake, exchange, and later logins on the same connection (KIP-368).

A login that is repeated keeps the user and the mechanism. A session may end by the settings or with the credential;
then the client must log in again before it sends anything else. Pure: times are arguments.
"""

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from tailrace.protocol.error_codes import ErrorCode
from tailrace.security.identity.principal import ANONYMOUS

from .sasl_steps import Authenticated, Challenge, HardWork, Refused, SaslExchange, Step

REPEAT_SECONDS_MIN = 1.0
"""How long after a login the next one may begin, as in Apache Kafka."""
_OUT_OF_ORDER = "The client must send SaslHandshake before SaslAuthenticate, and no other requests in between"


class _State(Enum):
    HANDSHAKE = "the client has to choose a mechanism"
    EXCHANGE = "the client has to prove who it is"
    OPEN = "the client has logged in"
    CLOSED = "the client is refused"


class Handshake(NamedTuple):
    """The answer to SaslHandshake."""

    code: ErrorCode
    mechanisms: tuple[str, ...]
    refusal: Refused | None = None
    """Why the connection must be closed; None if it stays open."""


class Outcome(NamedTuple):
    """The answer to what a client sent with its mechanism."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    data: bytes = b""
    lifetime_ms: int = 0
    """How long the session lasts; 0 if it does not end."""
    refusal: Refused | None = None
    """Why the connection must be closed; None if it stays open."""


class OutcomeAfterWork(NamedTuple):
    """A computation that must be done for the answer."""

    compute: Callable[[], bool]
    conclude: Callable[[bool, float], Outcome]
    """Returns the answer, given the result and the time."""


class SaslSession:
    """Who the client of a connection is, and what it may do next."""

    def __init__(
        self, mechanisms: Mapping[str, Callable[[], SaslExchange]], lifetime_ms_max: int, now_ms: Callable[[], int]
    ) -> None:
        """Prepares the session of a new connection.

        `mechanisms` make an exchange each. `lifetime_ms_max` is how long a login lasts; 0 stands for no limit.
        `now_ms` is the wall clock, by which credentials expire.
        """
        self._mechanisms = mechanisms
        self._lifetime_ms_max = lifetime_ms_max
        self._now_ms = now_ms
        self._state = _State.HANDSHAKE
        self._exchange: SaslExchange | None = None
        self._has_headers = False
        """Whether the client wraps what it sends into SaslAuthenticate requests."""
        self._can_repeat = False
        """Whether the client knows that it can log in again on the same connection."""
        self._chosen = ""
        """The mechanism of the exchange in progress."""
        self._since = -math.inf
        self._expires = math.inf
        self.principal = ANONYMOUS
        """Who the client is; `ANONYMOUS` until its first login."""
        self.mechanism = ""
        """The mechanism of the first login."""
        self.is_token = False
        """Whether the client has logged in with a delegation token."""

    @property
    def has_logged_in(self) -> bool:
        """Whether the client has ever logged in on this connection."""
        return bool(self.mechanism)

    @property
    def takes_raw_token(self) -> bool:
        """Whether the next bytes are those of the mechanism, without a header of a request."""
        return self._state is _State.EXCHANGE and not self._has_headers

    @property
    def takes_token(self) -> bool:
        """Whether the next request must be SaslAuthenticate."""
        return self._state is _State.EXCHANGE

    def is_open(self, now: float) -> bool:
        """Whether the client may send any request."""
        return self._state is _State.OPEN and now <= self._expires

    def has_expired(self, now: float) -> bool:
        """Whether the client has logged in, and has to do so again before it sends anything else."""
        return self._state is _State.OPEN and now > self._expires

    def shake(self, version: int, mechanism: str, now: float) -> Handshake:
        """Takes SaslHandshake: the client chooses a mechanism."""
        names = tuple(self._mechanisms)
        if self._state is _State.OPEN and not (self._can_repeat and now - self._since >= REPEAT_SECONDS_MIN):
            return Handshake(ErrorCode.ILLEGAL_SASL_STATE, ())
        if self._state in (_State.EXCHANGE, _State.CLOSED):
            self._state = _State.CLOSED
            return Handshake(ErrorCode.ILLEGAL_SASL_STATE, (), Refused("the client sent SaslHandshake twice"))
        make = self._mechanisms.get(mechanism)
        if make is None:
            self._state = _State.CLOSED
            reason = f"the client wants the mechanism {mechanism!r:.100}, which is not enabled"
            return Handshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM, names, Refused(reason))
        self._exchange, self._chosen = make(), mechanism
        self._has_headers = version >= 1
        self._state = _State.EXCHANGE
        return Handshake(ErrorCode.NONE, names)

    def take(self, data: bytes, version: int | None, now: float) -> Outcome | OutcomeAfterWork:
        """Takes bytes of the mechanism. `version` is that of SaslAuthenticate; None for bytes without a header."""
        if self._state is not _State.EXCHANGE or self._exchange is None:
            if self._state is _State.OPEN:
                return Outcome(ErrorCode.ILLEGAL_SASL_STATE, _OUT_OF_ORDER)
            return self._refuse(Refused("SaslAuthenticate came before SaslHandshake", _OUT_OF_ORDER))
        if version is not None and version >= 1:
            self._can_repeat = True
        if self.has_logged_in and self._chosen != self.mechanism:
            message = (
                f"SASL mechanism '{self._chosen}' requested by client is not supported for re-authentication of"
                f" mechanism '{self.mechanism}'"
            )
            return self._refuse(Refused("the client wants another mechanism than before", message))
        step = self._exchange.step(data)
        if isinstance(step, HardWork):
            conclude = step.conclude
            return OutcomeAfterWork(step.compute, lambda result, now: self._conclude(conclude(result), now))
        return self._conclude(step, now)

    def _conclude(self, step: Step, now: float) -> Outcome:
        match step:
            case Challenge(data):
                return Outcome(data=data)
            case Refused():
                return self._refuse(step)
            case Authenticated():
                return self._open(step, now)

    def _open(self, done: Authenticated, now: float) -> Outcome:
        if self.has_logged_in and done.principal != self.principal:
            message = (
                f"Cannot change principals during re-authentication from {self.principal.kind}.{self.principal.name}:"
                f" {done.principal.kind}.{done.principal.name}"
            )
            return self._refuse(Refused("the client logs in as another user than before", message, done.principal.name))
        lifetimes = [self._lifetime_ms_max] if self._lifetime_ms_max > 0 else []
        if done.expires_ms is not None:
            lifetimes.append(max(done.expires_ms - self._now_ms(), 0))
        lifetime_ms = min(lifetimes, default=0)
        self.principal, self.mechanism, self.is_token = done.principal, self._chosen, done.is_token
        self._since, self._expires = now, now + lifetime_ms / 1000 if lifetimes else math.inf
        self._state, self._exchange = _State.OPEN, None
        return Outcome(data=done.data, lifetime_ms=lifetime_ms)

    def _refuse(self, refusal: Refused) -> Outcome:
        again = "re-authentication" if self.has_logged_in else "authentication"
        self._state, self._exchange = _State.CLOSED, None
        message = refusal.message or (
            f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._chosen}"
        )
        return Outcome(ErrorCode.SASL_AUTHENTICATION_FAILED, message, refusal=refusal)
