from typing import Any

import pytest
from administered import administered
from trio.testing import MockClock

from tailrace.client.server_connection import RefusedError
from tailrace.client.user_client import TokenClient, UserClient, UserCredentials
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenResponse
from tailrace.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenResponse,
)
from tailrace.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from tailrace.security.identity.principal import Principal


async def test_users_are_described_in_the_order_of_their_names(autojump_clock: MockClock) -> None:
    async with administered(1) as (_, admin):
        client = UserClient(admin._spus)
        assert await client.users() == []
        await client.put("bob", "SCRAM-SHA-256", "secret", b"salt", 4096)
        await client.put("alice", "SCRAM-SHA-512", "secret", b"salt", 8192)
        alice, bob = UserCredentials("alice", {"SCRAM-SHA-512": 8192}), UserCredentials("bob", {"SCRAM-SHA-256": 4096})
        assert await client.users() == [alice, bob]
        assert await client.users(["alice", "mallory", "alice"]) == [alice]
        await client.delete("bob", "SCRAM-SHA-256")
        assert await client.users() == [alice]


async def test_a_refusal_is_raised(autojump_clock: MockClock) -> None:
    async with administered(1) as (_, admin):
        client = UserClient(admin._spus)
        with pytest.raises(RefusedError):
            await client.delete("bob", "SCRAM-SHA-256")
        with pytest.raises(RefusedError):
            await client.put("bob", "SCRAM-SHA-256", "secret", b"salt", 100)


class _Scripted:
    """Answers requests about tokens, which only clients that have logged in may send."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def ask_first(self, request: Any) -> Any:
        self.asked.append(request)
        return self.answers.pop(0)


def _tokens(*answers: Any) -> tuple[_Scripted, TokenClient]:
    scripted = _Scripted(*answers)
    return scripted, TokenClient(scripted)  # type: ignore[arg-type]


ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


async def test_a_token_is_found_by_its_id_and_renewed_with_its_hmac() -> None:
    told = [
        DescribedDelegationToken("User", "alice", "User", "bob", 1, expires, 9, name, b"hmac of %b" % name.encode())
        for name, expires in (("late", 5), ("soon", 3))
    ]
    described = DescribeDelegationTokenResponse(tokens=told)
    scripted, client = _tokens(described, described, RenewDelegationTokenResponse(expiry_timestamp_ms=7), described)
    assert [each.id for each in await client.tokens([ALICE])] == ["soon", "late"]
    assert scripted.asked[0].owners == [DescribeDelegationTokenOwner("User", "alice")]
    token = await client.token("late")
    assert (token.owner, token.requester, token.expires_ms, token.max_ms) == (ALICE, BOB, 5, 9)
    assert await client.renew(token) == 7
    assert scripted.asked[2] == RenewDelegationTokenRequest(b"hmac of late", -1)
    assert "hmac" not in repr(token)
    with pytest.raises(RefusedError, match="there is no token other that you may see"):
        await client.token("other")


async def test_a_broker_that_ignores_the_owner_is_noticed() -> None:
    scripted, client = _tokens(
        CreateDelegationTokenResponse(principal_type="User", principal_name="alice", token_id="t"),
        CreateDelegationTokenResponse(principal_type="User", principal_name="alice", token_id="t"),
        CreateDelegationTokenResponse(error_code=ErrorCode.POLICY_VIOLATION),
    )
    assert (await client.create(None, [BOB])).renewers == (BOB,)
    assert scripted.asked[0].renewers == [CreatableRenewers("User", "bob")]
    with pytest.raises(RefusedError, match="does not create tokens for other owners"):
        await client.create(BOB, [])
    with pytest.raises(RefusedError, match="too many tokens"):
        await client.create(None, [])
