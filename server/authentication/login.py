"""The login of one client: handles SaslHandshake and SaslAuthenticate, and guards the connection before and after.

Requests of a login are rare work: the connection handles nothing else until each is answered. So a failed login can be
answered late without a cost for other clients.
"""

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tailrace.security.sasl.bearer_exchange import MECHANISM as OAUTHBEARER
from tailrace.security.sasl.sasl_session import Outcome, OutcomeAfterWork
from tailrace.security.sasl.sasl_steps import Refused
from tailrace.server.request_context import RequestContext

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

    async def shake(self, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """Answers SaslHandshake."""
        if not self._session.takes_token:
            self._mechanism = request.mechanism
        answer = self._session.shake(context.api_version, request.mechanism, trio.current_time())
        if answer.refusal is not None:
            await self._refuse(context, answer.refusal)
        return SaslHandshakeResponse(answer.code, list(answer.mechanisms))

    async def authenticate(self, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """Answers SaslAuthenticate."""
        outcome = await self._take(context, bytes(request.auth_bytes), context.api_version)
        return SaslAuthenticateResponse(outcome.code, outcome.message, outcome.data, outcome.lifetime_ms)

    async def authenticate_raw(self, context: RequestContext, token: bytes) -> bytes | None:
        """Answers bytes without a header of a request; returns None if the connection closes without an answer."""
        outcome = await self._take(context, token, None)
        if outcome.refusal is not None:
            context.respond_nothing(close=context.close_after)
            return None
        return outcome.data

    async def _take(self, context: RequestContext, data: bytes, version: int | None) -> Outcome:
        authenticators, session = self._authenticators, self._session
        is_again = session.has_logged_in
        if self._mechanism == OAUTHBEARER and authenticators.keys is not None:
            await authenticators.keys.refresh(is_missing_a_key=authenticators.lacks_key(data))
        outcome = session.take(data, version, trio.current_time())
        if isinstance(outcome, OutcomeAfterWork):
            result = await authenticators.worker.run(outcome.compute)
            outcome = outcome.conclude(result, trio.current_time())
        if outcome.refusal is not None:
            await self._refuse(context, outcome.refusal)
        elif session.is_open(trio.current_time()) and outcome.code is ErrorCode.NONE:
            client = context.client
            client.principal, client.mechanism = session.principal, session.mechanism
            client.is_token = session.is_token
            authenticators.log.on_succeeded(client, is_again=is_again)
        return outcome

    async def _refuse(self, context: RequestContext, refusal: Refused) -> None:
        """Logs the reason, waits, and lets the connection close after the answer."""
        self._authenticators.log.on_refused(context.client, context.listener.name, self._mechanism, refusal)
        await trio.sleep(self._authenticators.settings.delay_seconds)
        context.close_after = "the client has not logged in"
