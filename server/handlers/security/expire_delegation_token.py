"""ExpireDelegationToken, versions 1–2: sets when a token expires; a negative period removes it at once.

Its owner and its renewers may do it. Others get DELEGATION_TOKEN_OWNER_MISMATCH.
"""

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from tailrace.security.tokens.token_rules import check_may_use_tokens
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(
    host: AdministeringHost, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    client = context.client
    period_ms = request.expiry_time_period_ms
    try:
        check_may_use_tokens(client.protocol, client.principal, is_token=client.is_token)
        expires_ms = await host.administration.tokens.expire(request.hmac, client.principal, period_ms)
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
