"""CreateDelegationToken, versions 1–3: creates a token, with which clients authenticate as its owner.

- The client must have authenticated, and not with a token: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
- From version 3 on, a client may create a token for another owner (KIP-373).
- Owners and renewers are users; other types of principals are refused with INVALID_PRINCIPAL_TYPE.
- A principal can have created 1000 tokens. More are a POLICY_VIOLATION; Kafka has no limit.
"""

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tailrace.security.identity.principal import Principal
from tailrace.security.tokens.token_rules import check_may_use_tokens
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(
    host: AdministeringHost, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    client = context.client
    requester = client.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or requester.kind, request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    renewers = [Principal(each.principal_type, each.principal_name) for each in request.renewers]
    try:
        check_may_use_tokens(client.protocol, requester, is_token=client.is_token)
        token = await host.administration.tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except KafkaError as error:
        response.error_code = error.code
        return response
    response.issue_timestamp_ms = token.record.issued_ms
    response.expiry_timestamp_ms = token.record.expires_ms
    response.max_timestamp_ms = token.record.max_ms
    response.token_id = token.record.id
    response.hmac = token.hmac
    return response
