"""Delegation tokens with access rules."""

from typing import Any

import pytest
from authorized_spu import rule
from hosts import request_of

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tailrace.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import Permission
from tailrace.security.acls.acl_codes import ResourceType as Res
from tailrace.security.acls.authorizer import Authorizer
from tailrace.security.identity.principal import Principal
from tailrace.server.authorization.authorization import Authorization

ALICE = Principal("User", "alice")


def _ask(cluster: Cluster, key: ApiKey, request: object, response: object) -> Any:
    authorization = Authorization(Authorizer(cluster.security), cluster, lambda: True)
    context = request_of(key)
    context.client.principal = ALICE
    found = authorization.guarded(key, lambda context, request: response)(context, request)
    return found if context.amend is None else context.amend(found)


def test_a_token_for_another_owner_needs_a_rule_about_the_owner() -> None:
    cluster = Cluster()

    def code(owner: str | None) -> int:
        request = CreateDelegationTokenRequest("User" if owner else None, owner)
        response: CreateDelegationTokenResponse = _ask(
            cluster, ApiKey.CREATE_DELEGATION_TOKEN, request, CreateDelegationTokenResponse()
        )
        return response.error_code

    assert [code(None), code("alice")] == [ErrorCode.NONE] * 2
    assert code("bob") == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    cluster.put_security(rule(Res.USER, Op.CREATE_TOKENS, "User:bob", who="User:alice"))
    assert code("bob") == ErrorCode.NONE


@pytest.mark.parametrize("owner_type", [None, "", "User"])
def test_a_rule_about_the_owner_applies_also_without_the_type_of_the_owner(owner_type: str | None) -> None:
    """The handler then takes the type of the client, so the guard must ask about the same owner."""
    cluster = Cluster()
    cluster.put_security(rule(Res.USER, Op.CREATE_TOKENS, "*", who="User:alice"))
    cluster.put_security(rule(Res.USER, Op.CREATE_TOKENS, "User:root", who="User:alice", permission=Permission.DENY))
    request = CreateDelegationTokenRequest(owner_type, "root")
    response = _ask(cluster, ApiKey.CREATE_DELEGATION_TOKEN, request, CreateDelegationTokenResponse())
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def test_tokens_are_shown_to_owners_to_renewers_and_to_whom_rules_allow() -> None:
    cluster = Cluster()
    tokens = [
        DescribedDelegationToken("User", "alice", token_id="own"),
        DescribedDelegationToken(
            "User", "bob", token_id="renewed", renewers=[DescribedDelegationTokenRenewer("User", "alice")]
        ),
        DescribedDelegationToken("User", "bob", token_id="of-bob"),
        DescribedDelegationToken("User", "carol", token_id="of-carol"),
    ]

    def shown() -> list[str]:
        response: DescribeDelegationTokenResponse = _ask(
            cluster,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            DescribeDelegationTokenRequest(None),
            DescribeDelegationTokenResponse(tokens=list(tokens)),
        )
        return [each.token_id for each in response.tokens]

    assert shown() == ["own", "renewed"]
    cluster.put_security(rule(Res.DELEGATION_TOKEN, Op.DESCRIBE, "of-carol", who="User:alice"))
    assert shown() == ["own", "renewed", "of-carol"]
    cluster.put_security(rule(Res.USER, Op.DESCRIBE_TOKENS, "User:bob", who="User:alice"))
    assert shown() == ["own", "renewed", "of-bob", "of-carol"]
