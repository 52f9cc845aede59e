"""Manages users, their SCRAM credentials and their delegation tokens through any broker, with Kafka's protocol alone.

Passwords are salted before they leave this process. A request can change a user only once, so each mechanism takes one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tailrace.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from tailrace.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from tailrace.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tailrace.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tailrace.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tailrace.security.identity.principal import Principal
from tailrace.security.sasl.scram_keys import SCRAM_CODES, salt_password

from .server_connection import RefusedError, check, error_name
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


class DelegationToken(Struct, frozen=True):
    """A delegation token, with the times in milliseconds since 1970."""

    id: str
    hmac: bytes
    """The password of the token, as bytes. Clients log in with its text in base64."""
    owner: Principal
    requester: Principal
    issued_ms: int
    expires_ms: int
    max_ms: int
    """The time after which the token cannot be renewed."""
    renewers: tuple[Principal, ...] = ()

    def __repr__(self) -> str:
        return f"<DelegationToken {self.id}>"


class TokenClient:
    """Asks about delegation tokens through an `SpuClient`, whose connections must have logged in."""

    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus

    async def create(
        self, owner: Principal | None, renewers: Sequence[Principal], lifetime_ms: int = -1
    ) -> DelegationToken:
        """Creates a token of the user of this client, or of another owner. Raises RefusedError.

        A `lifetime_ms` of -1 stands for the longest lifetime that the cluster allows.
        """
        request = CreateDelegationTokenRequest(
            None if owner is None else owner.kind,
            None if owner is None else owner.name,
            [CreatableRenewers(each.kind, each.name) for each in renewers],
            lifetime_ms,
        )
        answer = await self._ask(request)
        created = Principal(answer.principal_type, answer.principal_name)
        if owner not in (None, created):
            raise RefusedError("the broker does not create tokens for other owners", ErrorCode.UNSUPPORTED_VERSION)
        return DelegationToken(
            answer.token_id,
            bytes(answer.hmac),
            created,
            Principal(answer.token_requester_principal_type, answer.token_requester_principal_name),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
            tuple(renewers),
        )

    async def tokens(self, owners: Sequence[Principal] = ()) -> list[DelegationToken]:
        """Returns the tokens that the client may see, or those of some owners, the first to expire first."""
        asked = [DescribeDelegationTokenOwner(each.kind, each.name) for each in owners]
        answer = await self._ask(DescribeDelegationTokenRequest(asked or None))
        found = [
            DelegationToken(
                each.token_id,
                bytes(each.hmac),
                Principal(each.principal_type, each.principal_name),
                Principal(each.token_requester_principal_type, each.token_requester_principal_name),
                each.issue_timestamp,
                each.expiry_timestamp,
                each.max_timestamp,
                tuple(Principal(one.principal_type, one.principal_name) for one in each.renewers),
            )
            for each in answer.tokens
        ]
        return sorted(found, key=lambda each: (each.expires_ms, each.id))

    async def token(self, token_id: str) -> DelegationToken:
        """Returns a token. Raises RefusedError if there is none that the client may see."""
        for each in await self.tokens():
            if each.id == token_id:
                return each
        raise RefusedError(f"there is no token {token_id} that you may see", ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    async def renew(self, token: DelegationToken, period_ms: int = -1) -> int:
        """Renews a token, and returns when it expires; -1 stands for the period of the cluster. Raises RefusedError."""
        expires_ms: int = (await self._ask(RenewDelegationTokenRequest(token.hmac, period_ms))).expiry_timestamp_ms
        return expires_ms

    async def expire(self, token: DelegationToken, period_ms: int = -1) -> int:
        """Sets when a token expires, and returns that time; -1 removes it at once. Raises RefusedError."""
        expires_ms: int = (await self._ask(ExpireDelegationTokenRequest(token.hmac, period_ms))).expiry_timestamp_ms
        return expires_ms

    async def _ask(self, request: object) -> Any:
        answer = await self._spus.ask_first(request)
        if answer.error_code:
            code = answer.error_code
            raise RefusedError(_REFUSED_TOKENS.get(code, error_name(code)), code)
        return answer


_REFUSED_TOKENS: Mapping[int, str] = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "tokens are turned off; set delegation.token.secret.key on the SC",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "the token does not exist any more",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only the owner of a token and its renewers may do this",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "tokens are managed only by clients that have logged in, and not "
    "with a token; give --client-config",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "you may not do this with the tokens of another user",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "the token has expired; create another one",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "owners and renewers of tokens are users, such as User:alice",
    ErrorCode.POLICY_VIOLATION: "there are too many tokens of this user or too many renewers; let some tokens expire",
}
"""What the errors of requests about tokens mean; their responses have no message."""
