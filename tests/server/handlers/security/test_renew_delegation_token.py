"""RenewDelegationToken."""

from token_clients import ask, create, running_tokens

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest


async def test_the_owner_and_a_renewer_renew_a_token_until_it_has_expired() -> None:
    async with running_tokens() as running:
        token = await create(running, "bob")

        async def renew(principal: str, hmac: bytes = token.hmac, period_ms: int = -1) -> tuple[int, int]:
            request = RenewDelegationTokenRequest(hmac, period_ms)
            response = await ask(running, ApiKey.RENEW_DELEGATION_TOKEN, request, principal)
            return response.error_code, response.expiry_timestamp_ms

        running.clock.time_ms += 500
        now_ms = running.clock.now_ms()
        assert await renew("User:bob") == (0, now_ms + 1000)
        assert await renew("User:alice", period_ms=700) == (0, now_ms + 700)
        assert running.workflow.cluster.security.tokens[token.token_id].expires_ms == now_ms + 700
        assert await renew("User:carol") == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
        assert await renew("User:alice", b"x") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
        running.clock.time_ms += 701
        assert await renew("User:alice") == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
