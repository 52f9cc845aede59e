"""Tokens on the Streaming Controller: what handlers do not show."""

import pytest
from running_workflow import running_workflow
from structlog.testing import capture_logs
from token_clients import SECRET, create, running_tokens

from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.identity.principal import Principal
from tailrace.security.tokens.token_rules import password_of

ALICE = Principal("User", "alice")


async def test_tokens_are_found_by_their_hmacs_after_a_restart() -> None:
    store = MemoryStore()
    async with running_workflow(store, broker=SECRET) as running:
        first, second = [await create(running) for _ in range(2)]
    async with running_workflow(store, broker=SECRET, chance_seed=2) as running:
        tokens = running.administration.tokens
        await tokens.renew(second.hmac, ALICE, -1)
        await tokens.expire(first.hmac, ALICE, -1)
        with pytest.raises(KafkaError) as refused:
            await tokens.renew(first.hmac, ALICE, -1)
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        third = await create(running)
        await tokens.renew(third.hmac, ALICE, -1)


async def test_a_token_that_was_renewed_in_the_meantime_stays() -> None:
    async with running_tokens() as running:
        kept, lost = [await create(running) for _ in range(2)]
        await running.administration.tokens.expire(lost.hmac, ALICE, 10)
        running.clock.time_ms += 11
        await running.administration.tokens.forget_expired()
        assert list(running.workflow.cluster.security.tokens) == [kept.token_id]


async def test_no_hmac_is_stored_or_logged() -> None:
    store = MemoryStore()
    with capture_logs() as logged:
        async with running_workflow(store, broker=SECRET) as running:
            token = await create(running)
            (issued,) = running.administration.tokens.issued()
            await running.administration.tokens.expire(token.hmac, ALICE, 10)
            stored = b"".join(entry.value for entry in (await store.list("")).entries)
    password = password_of(token.hmac)
    assert token.token_id.encode() in stored
    for secret in (password, token.hmac.hex(), SECRET["delegation.token.secret.key"] * 2):
        assert secret.encode() not in stored
        assert secret not in repr(logged)
        assert secret not in repr(issued)
