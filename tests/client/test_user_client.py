import pytest
from administered import administered
from trio.testing import MockClock

from tailrace.client.server_connection import RefusedError
from tailrace.client.user_client import UserClient, UserCredentials


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
