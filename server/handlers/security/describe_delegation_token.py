"""DescribeDelegationToken, versions 1–3: returns the tokens of some owners, or all, with their HMACs.

A token counts as a token of its owner, its requester and its renewers. An empty list of owners has no tokens. With an
authorizer, a client gets the tokens of others only if it has the permission; see `server/authorization/`. Expired
tokens are left out, while Kafka returns them until it removes them.
"""

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tailrace.security.identity.principal import Principal, parse_principal
from tailrace.security.tokens.token_rules import belongs_to, check_may_use_tokens
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext
from tailrace.server.token_administration import IssuedToken


async def handle(
    host: AdministeringHost, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    client = context.client
    owners = None
    if request.owners is not None:
        owners = [Principal(each.principal_type, each.principal_name) for each in request.owners]
    try:
        check_may_use_tokens(client.protocol, client.principal, is_token=client.is_token)
        tokens = host.administration.tokens.issued()
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    described = [
        _described(each) for each in tokens if owners is None or any(belongs_to(each.record, one) for one in owners)
    ]
    return DescribeDelegationTokenResponse(tokens=described)


def _described(token: IssuedToken) -> DescribedDelegationToken:
    record = token.record
    owner, requester = parse_principal(record.owner), parse_principal(record.requester)
    return DescribedDelegationToken(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp=record.issued_ms,
        expiry_timestamp=record.expires_ms,
        max_timestamp=record.max_ms,
        token_id=record.id,
        hmac=token.hmac,
        renewers=[DescribedDelegationTokenRenewer(*parse_principal(each)) for each in record.renewers],
    )
