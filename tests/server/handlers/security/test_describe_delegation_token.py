"""DescribeDelegationToken."""

import pytest
from token_clients import ask, create, running_tokens

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_tokens_are_described_with_their_hmacs(version: int) -> None:
    async with running_tokens() as running:
        created = await create(running, "bob", "carol")
        request = DescribeDelegationTokenRequest(None)
        response = await ask(running, ApiKey.DESCRIBE_DELEGATION_TOKEN, request, version=version)
        (token,) = response.tokens
        assert (token.token_id, token.hmac, token.principal_name) == (created.token_id, created.hmac, "alice")
        assert token.token_requester_principal_name == ("alice" if version >= 3 else "")
        assert token.expiry_timestamp == created.expiry_timestamp_ms
        assert [(each.principal_type, each.principal_name) for each in token.renewers] == [
            ("User", "bob"),
            ("User", "carol"),
        ]


async def test_the_tokens_of_some_owners_are_those_that_they_own_created_or_renew() -> None:
    async with running_tokens() as running:
        first = await create(running, "bob")
        second = await create(running, principal="User:bob", owner_principal_type="User", owner_principal_name="carol")

        async def described(*names: str) -> set[str]:
            owners = [DescribeDelegationTokenOwner("User", name) for name in names]
            response = await ask(running, ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest(owners))
            assert response.error_code == ErrorCode.NONE
            return {each.token_id for each in response.tokens}

        assert await described("alice") == {first.token_id}
        assert await described("bob") == {first.token_id, second.token_id}
        assert await described("carol", "dave") == {second.token_id}
        assert await described() == set()
        running.clock.time_ms += 1001
        assert await described("bob") == set(), "they have expired"
        assert len(running.workflow.cluster.security.tokens) == 2
        await running.administration.forget_expired_tokens()
        assert not running.workflow.cluster.security.tokens


async def test_clients_without_an_identity_of_their_own_see_no_token() -> None:
    async with running_tokens() as running:
        await create(running)
        request = DescribeDelegationTokenRequest(None)
        response = await ask(running, ApiKey.DESCRIBE_DELEGATION_TOKEN, request, is_token=True)
        assert (response.error_code, response.tokens) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
