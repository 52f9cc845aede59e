"""AlterUserScramCredentials on a Streaming Controller and through an SPU."""

import pytest
from sasl_samples import PASSWORD
from simulation.client import WireClient
from spus import running_spu
from trio.testing import MockClock

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tailrace.security.sasl.scram_keys import fits, salt_password

SHA_256, SHA_512 = 1, 2
NAMES = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}


def put(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, password: str = PASSWORD
) -> ScramCredentialUpsertion:
    salted = salt_password(NAMES.get(mechanism, NAMES[SHA_256]), password, b"salt", iterations)
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", salted)


def remove(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name, mechanism)


async def alter(client: WireClient, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        [each for each in changes if isinstance(each, ScramCredentialDeletion)],
        [each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    response = await client.request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    results = {each.user: each.error_code for each in response.results}
    assert len(results) == len(response.results)
    return results


async def test_users_get_and_lose_credentials(autojump_clock: MockClock) -> None:
    async with running_spu() as running:
        client, users = await running.client(), running.spu.cluster.security.users
        assert await alter(client, put("alice"), put("bob", SHA_512)) == {"alice": 0, "bob": 0}
        assert set(users) == {"alice", "bob"}
        assert await alter(client, put("alice", SHA_512)) == {"alice": 0}
        assert [each.mechanism for each in users["alice"].credentials] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert await alter(client, put("alice", iterations=8192, password="new")) == {"alice": 0}
        credential = users["alice"].credential("SCRAM-SHA-256")
        assert credential is not None and credential.iterations == 8192 and fits(credential, "new")
        assert await alter(client, remove("alice")) == {"alice": 0}
        assert [each.mechanism for each in users["alice"].credentials] == ["SCRAM-SHA-512"]
        assert await alter(client, remove("alice", SHA_512), remove("bob", SHA_512)) == {"alice": 0, "bob": 0}
        assert not users, "a user without credentials is gone"


async def test_bad_changes_are_refused_and_good_ones_beside_them_are_made(autojump_clock: MockClock) -> None:
    async with running_spu() as running:
        client = await running.client()
        await alter(client, put("twice"))
        assert await alter(
            client,
            put("good"),
            put(""),
            put("unknown", 3),
            put("few", iterations=4095),
            put("many", iterations=16385),
            ScramCredentialUpsertion("unsalted", SHA_256, 4096, b"", b"x"),
            put("twice"),
            remove("twice"),
            remove("missing"),
        ) == {
            "good": ErrorCode.NONE,
            "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "unsalted": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "twice": ErrorCode.DUPLICATE_RESOURCE,
            "missing": ErrorCode.RESOURCE_NOT_FOUND,
        }
        assert set(running.spu.cluster.security.users) == {"good", "twice"}
        assert await alter(client) == {}


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
async def test_a_credential_of_the_other_mechanism_is_not_deleted(autojump_clock: MockClock, mechanism: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        await alter(client, put("alice", mechanism))
        assert await alter(client, remove("alice", 3 - mechanism)) == {"alice": ErrorCode.RESOURCE_NOT_FOUND}
