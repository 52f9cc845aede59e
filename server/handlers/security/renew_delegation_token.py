"""RenewDelegationToken, versions 1–2: lets a token expire later, at most at the end of its lifetime.

Its owner and its renewers may do it. Others get DELEGATION_TOKEN_OWNER_MISMATCH.
"""

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tailrace.security.tokens.token_rules import check_may_use_tokens
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(
    host: AdministeringHost, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    client = context.client
    try:
        check_may_use_tokens(client.protocol, client.principal, is_token=client.is_token)
        expires_ms = await host.administration.tokens.renew(request.hmac, client.principal, request.renew_period_ms)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
