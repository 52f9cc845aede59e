"""ExpireDelegationToken."""

from token_clients import ask, create, running_tokens

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest


async def test_a_token_expires_when_its_owner_says_or_at_once() -> None:
    async with running_tokens() as running:
        token = await create(running)
        tokens = running.workflow.cluster.security.tokens

        async def expire(principal: str, period_ms: int, hmac: bytes = token.hmac) -> tuple[int, int]:
            request = ExpireDelegationTokenRequest(hmac, period_ms)
            response = await ask(running, ApiKey.EXPIRE_DELEGATION_TOKEN, request, principal)
            return response.error_code, response.expiry_timestamp_ms

        now_ms = running.clock.now_ms()
        assert await expire("User:carol", -1) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
        assert await expire("User:alice", 10) == (0, now_ms + 10)
        assert tokens[token.token_id].expires_ms == now_ms + 10
        assert await expire("User:alice", -1) == (0, now_ms)
        assert not tokens
        assert await expire("User:alice", -1) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
