"""The login of one client: handles SaslHandshake and SaslAuthenticate, and guards the connection before and after.

A step that waits for nothing is answered at once; those of a successful SCRAM login are. Other steps are rare work: the
connection handles nothing else until each is answered. So a failed login can be answered late without a cost for other
clients. The handshake of a repeated login is rare work as well: after it, the connection looks again at what the client
may send.
"""

from collections.abc import Awaitable

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tailrace.security.sasl.bearer_exchange import MECHANISM as OAUTHBEARER
from tailrace.security.sasl.sasl_session import Outcome, OutcomeAfterWork
from tailrace.security.sasl.sasl_steps import Refused
from tailrace.server.request_context import Reply, RequestContext

from .authenticators import Authenticators


class Login:
    """The login of one client's connection."""

    def __init__(self, authenticators: Authenticators) -> None:
        self._authenticators = authenticators
        self._session = authenticators.new_session()
        self._mechanism = ""

    @property
    def message_bytes_max(self) -> int:
        """The largest request before the client has logged in."""
        return self._authenticators.settings.message_bytes_max

    @property
    def has_logged_in(self) -> bool:
        """Whether the client has ever logged in."""
        return self._session.has_logged_in

    @property
    def takes_raw_token(self) -> bool:
        """Whether the next bytes have no header of a request, as older clients send them."""
        return self._session.takes_raw_token

    def is_open(self, now: float) -> bool:
        """Whether the client may send any request."""
        return self._session.is_open(now)

    def check(self, api_key: int, now: float) -> str | None:
        """Returns why the connection closes if the client sends this request before it may; None if it may.

        Raises RemoteProtocolError if the client has not followed the protocol.
        """
        session = self._session
        if session.takes_token:
            if api_key == ApiKey.SASL_HANDSHAKE:
                return None  # it gets an error, and then the connection closes
            allowed: tuple[int, ...] = (ApiKey.SASL_AUTHENTICATE,)
        elif session.has_logged_in:
            if api_key != ApiKey.SASL_HANDSHAKE:
                self._authenticators.log.counts.expired_logins += 1
                return "its login has expired, and the client has not logged in again"
            return None
        else:
            allowed = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
        if api_key not in allowed:
            names = " or ".join(ApiKey(each).name for each in allowed)
            raise RemoteProtocolError(f"the client must log in first: {names} was expected, not API {api_key}")
        return None

    def shake(self, context: RequestContext, request: SaslHandshakeRequest) -> Reply:
        """Answers SaslHandshake.

        It is rare work if the client logs in again: that ends the turn, in which the client might send any request.
        """
        if not self._session.takes_token:
            self._mechanism = request.mechanism
        answer = self._session.shake(context.api_version, request.mechanism, trio.current_time())
        response = SaslHandshakeResponse(answer.code, list(answer.mechanisms))
        if answer.refusal is None and not self._session.has_logged_in:
            return response
        return self._shake_later(context, answer.refusal, response)

    async def _shake_later(
        self, context: RequestContext, refusal: Refused | None, response: SaslHandshakeResponse
    ) -> SaslHandshakeResponse:
        if refusal is not None:
            await self._refuse(context, refusal)
        return response

    def authenticate(self, context: RequestContext, request: SaslAuthenticateRequest) -> Reply:
        """Answers SaslAuthenticate."""
        data = bytes(request.auth_bytes)
        if self._mechanism == OAUTHBEARER:
            return _respond_later(self._take(context, data, context.api_version))
        outcome = self._session.take(data, context.api_version, trio.current_time())
        if isinstance(outcome, OutcomeAfterWork) or outcome.refusal is not None:
            return _respond_later(self._finish(context, outcome))
        if outcome.code is ErrorCode.NONE:
            self._on_accepted(context)
        return _response(outcome)

    async def authenticate_raw(self, context: RequestContext, token: bytes) -> bytes | None:
        """Answers bytes without a header of a request; returns None if the connection closes without an answer."""
        outcome = await self._take(context, token, None)
        if outcome.refusal is not None:
            context.respond_nothing(close=context.close_after)
            return None
        return outcome.data

    async def _take(self, context: RequestContext, data: bytes, version: int | None) -> Outcome:
        """Takes bytes of the mechanism, after reading the keys of bearer tokens if these are needed."""
        authenticators = self._authenticators
        if self._mechanism == OAUTHBEARER and authenticators.keys is not None:
            await authenticators.keys.refresh(is_missing_a_key=authenticators.lacks_key(data))
        return await self._finish(context, self._session.take(data, version, trio.current_time()))

    async def _finish(self, context: RequestContext, outcome: Outcome | OutcomeAfterWork) -> Outcome:
        """Does what has to be waited for."""
        if isinstance(outcome, OutcomeAfterWork):
            result = await self._authenticators.worker.run(outcome.compute)
            outcome = outcome.conclude(result, trio.current_time())
        if outcome.refusal is not None:
            await self._refuse(context, outcome.refusal)
        elif outcome.code is ErrorCode.NONE:
            self._on_accepted(context)
        return outcome

    def _on_accepted(self, context: RequestContext) -> None:
        """Takes note of who the client is, if that was its last message."""
        session, client = self._session, context.client
        if session.is_open(trio.current_time()):
            is_again = bool(client.mechanism)
            client.principal, client.mechanism = session.principal, session.mechanism
            client.is_token = session.is_token
            self._authenticators.log.on_succeeded(client, is_again=is_again)

    async def _refuse(self, context: RequestContext, refusal: Refused) -> None:
        """Logs the reason, waits, and lets the connection close after the answer."""
        self._authenticators.log.on_refused(context.client, context.listener.name, self._mechanism, refusal)
        await trio.sleep(self._authenticators.settings.delay_seconds)
        context.close_after = "the client has not logged in"


async def _respond_later(outcome: Awaitable[Outcome]) -> SaslAuthenticateResponse:
    return _response(await outcome)


def _response(outcome: Outcome) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(outcome.code, outcome.message, outcome.data, outcome.lifetime_ms)
