"""CreateDelegationToken."""

import pytest
from token_clients import ask, create, running_tokens

from tailrace.controller.administration import token_requests
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from tailrace.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from tailrace.security.records.user_record import SCRAM_SHA_512
from tailrace.security.sasl.scram_keys import fits
from tailrace.security.tokens.token_rules import password_of


async def test_a_client_gets_a_token_that_the_mirror_has() -> None:
    async with running_tokens() as running:
        response = await create(running, "bob")
        assert response.error_code == ErrorCode.NONE
        assert (response.principal_name, response.token_requester_principal_name) == ("alice", "alice")
        now_ms = running.clock.now_ms()
        assert (response.issue_timestamp_ms, response.expiry_timestamp_ms) == (now_ms, now_ms + 1000)
        assert response.max_timestamp_ms == now_ms + 7 * 24 * 60 * 60 * 1000
        token = running.workflow.cluster.security.tokens[response.token_id]
        assert (token.owner, token.renewers) == ("User:alice", ("User:bob",))
        credential = token.credential(SCRAM_SHA_512)
        assert credential is not None
        assert fits(credential, password_of(response.hmac))


async def test_a_token_can_be_made_for_another_owner() -> None:
    async with running_tokens() as running:
        response = await create(running, owner_principal_type="User", owner_principal_name="carol")
        assert (response.principal_name, response.token_requester_principal_name) == ("carol", "alice")
        token = running.workflow.cluster.security.tokens[response.token_id]
        assert (token.owner, token.requester) == ("User:carol", "User:alice")


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_refusals_name_owner_and_requester(version: int) -> None:
    request = CreateDelegationTokenRequest(renewers=[CreatableRenewers("Group", "g")], max_lifetime_ms=5)
    async with running_tokens() as running:
        response = await ask(running, ApiKey.CREATE_DELEGATION_TOKEN, request, version=version)
        assert (response.error_code, response.principal_name) == (ErrorCode.INVALID_PRINCIPAL_TYPE, "alice")
        assert (response.issue_timestamp_ms, response.token_id, response.hmac) == (-1, "", b"")
        response = await ask(running, ApiKey.CREATE_DELEGATION_TOKEN, request, version=version, is_token=True)
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        response = await ask(running, ApiKey.CREATE_DELEGATION_TOKEN, request, version=version, protocol="PLAINTEXT")
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_tokens_are_off_without_a_key() -> None:
    async with running_tokens(**{"delegation.token.secret.key": ""}) as running:
        assert (await create(running)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


async def test_a_principal_can_create_so_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_requests, "TOKENS_PER_REQUESTER_MAX", 2)
    async with running_tokens() as running:
        assert [(await create(running)).error_code for _ in range(3)] == [0, 0, ErrorCode.POLICY_VIOLATION]
        assert (await create(running, principal="User:bob")).error_code == ErrorCode.NONE


async def test_principals_without_a_name_are_refused() -> None:
    """A stored token whose renewer has no name could not be described, nor any other token with it."""
    async with running_tokens() as running:
        assert (await create(running, "")).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert (await create(running, principal="User:alice")).error_code == ErrorCode.NONE
        response = await ask(running, ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest(None))
        assert (response.error_code, len(response.tokens)) == (ErrorCode.NONE, 1)
