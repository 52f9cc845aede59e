"""Manages users and their SCRAM credentials through any broker, with Kafka's protocol alone.

Passwords are salted before they leave this process. A request can change a user only once, so each mechanism takes one.
"""

from collections.abc import Sequence

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tailrace.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tailrace.security.sasl.scram_keys import SCRAM_CODES, salt_password

from .server_connection import RefusedError, check
from .spu_client import SpuClient

_CODES = {mechanism: code for code, mechanism in SCRAM_CODES.items()}


class UserCredentials(Struct, frozen=True):
    """A user as the cluster describes it: the number of iterations of each mechanism, and no keys."""

    name: str
    iterations: dict[str, int]


class UserClient:
    """Asks about users through an `SpuClient`."""

    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus

    async def users(self, names: Sequence[str] = ()) -> list[UserCredentials]:
        """Describes these users, or all of them, in the order of their names. Those that do not exist are left out."""
        asked = [UserName(name) for name in dict.fromkeys(names)] or None
        response = await self._spus.ask_first(DescribeUserScramCredentialsRequest(asked))
        check(response)
        found = []
        for each in response.results:
            if each.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            check(each)
            infos = {SCRAM_CODES.get(info.mechanism, "?"): info.iterations for info in each.credential_infos}
            found.append(UserCredentials(each.user, infos))
        return sorted(found, key=lambda each: each.name)

    async def put(self, name: str, mechanism: str, password: str, salt: bytes, iterations: int) -> None:
        """Sets the password of a user for a mechanism. Raises RefusedError."""
        salted = salt_password(mechanism, password, salt, iterations)
        upsertion = ScramCredentialUpsertion(name, _CODES[mechanism], iterations, salt, salted)
        await self._alter(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    async def delete(self, name: str, mechanism: str) -> None:
        """Deletes the credential of a user for a mechanism. Raises RefusedError."""
        deletion = ScramCredentialDeletion(name, _CODES[mechanism])
        await self._alter(AlterUserScramCredentialsRequest(deletions=[deletion]))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        response = await self._spus.ask_first(request)
        if not response.results:
            raise RefusedError("the response does not contain the user")
        for each in response.results:
            check(each)
