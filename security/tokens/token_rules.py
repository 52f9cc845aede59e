"""The rules of delegation tokens, as Apache Kafka has them.

The HMAC of a token is its password. It is computed from the id of the token and a secret key, so that it is stored
nowhere. Each function raises KafkaError if it refuses.
"""

import base64
import hmac
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.identity.principal import ANONYMOUS, USER, Principal
from tailrace.security.records.token_record import TokenRecord
from tailrace.security.sasl.scram_keys import ITERATIONS, SCRAM_MECHANISMS, credential_of_password
from tailrace.security.settings.secret import Secret

PLAINTEXT, SSL = "PLAINTEXT", "SSL"
RENEWERS_BYTES_MAX = 2048
"""How long the names of all renewers of a token may be together, because each token is in the memory of servers."""


class TokenSettings(Struct, frozen=True):
    """The settings of delegation tokens."""

    secret: Secret | None
    """The key from which the HMACs are computed; None if tokens are turned off."""
    lifetime_ms_max: int
    """How long a token can be renewed."""
    expiry_ms: int
    """How long a token is valid until it has to be renewed."""

    def hmac_of(self, token_id: str) -> bytes:
        """Returns the HMAC of a token. Raises KafkaError if tokens are turned off."""
        if self.secret is None:
            raise KafkaError(
                ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
                "delegation tokens are turned off; set delegation.token.secret.key on the Streaming Controller",
            )
        return hmac.digest(self.secret.reveal().encode(), token_id.encode(), "sha512")


def check_may_use_tokens(protocol: str, principal: Principal, *, is_token: bool) -> None:
    """Refuses requests about tokens of clients without an own identity, or with a token as their identity."""
    if is_token or protocol == PLAINTEXT or (protocol == SSL and principal == ANONYMOUS):
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "tokens are managed only by clients that have authenticated, and not with a token",
        )


def password_of(token_hmac: bytes) -> str:
    """Returns the password with which a client with the token authenticates over SCRAM."""
    return base64.b64encode(token_hmac).decode()


def new_token(
    settings: TokenSettings,
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Sequence[Principal],
    lifetime_ms: int,
    now_ms: int,
    new_salt: Callable[[], bytes],
) -> TokenRecord:
    """Returns a new token. `lifetime_ms` is what the client asks for, at most the configured lifetime; -1 for that."""
    if any(each.kind != USER for each in (owner, *renewers)):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, f"owners and renewers of tokens are of the type {USER}")
    if not all(each.name for each in (owner, requester, *renewers)):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, "owners, requesters and renewers of tokens have names")
    if sum(len(str(each).encode(errors="replace")) for each in renewers) > RENEWERS_BYTES_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"the names of all renewers of a token take at most {RENEWERS_BYTES_MAX} bytes"
        )
    password = password_of(settings.hmac_of(token_id))
    max_ms = now_ms + _limited(lifetime_ms, settings.lifetime_ms_max)
    credentials = [credential_of_password(each, password, new_salt(), ITERATIONS) for each in SCRAM_MECHANISMS]
    return TokenRecord(
        token_id,
        str(owner),
        str(requester),
        tuple(credentials),
        tuple(map(str, renewers)),
        now_ms,
        min(max_ms, now_ms + settings.expiry_ms),
        max_ms,
    )


def renewed(
    token: TokenRecord, principal: Principal, period_ms: int, settings: TokenSettings, now_ms: int
) -> TokenRecord:
    """Returns the token with a later expiry; -1 as the period stands for the configured one."""
    _check_valid(token, now_ms)
    _check_owner(token, principal)
    return replace(token, expires_ms=min(token.max_ms, now_ms + _limited(period_ms, settings.expiry_ms)))


def expired(token: TokenRecord, principal: Principal, period_ms: int, now_ms: int) -> TokenRecord | None:
    """Returns the token with another expiry, or None if it should be removed at once: if the period is negative."""
    _check_owner(token, principal)
    if period_ms < 0:
        return None
    _check_valid(token, now_ms)
    return replace(token, expires_ms=min(token.max_ms, now_ms + period_ms))


def has_expired(token: TokenRecord, now_ms: int) -> bool:
    """Tells whether the token is not accepted any more."""
    return token.expires_ms < now_ms or token.max_ms < now_ms


def belongs_to(token: TokenRecord, principal: Principal) -> bool:
    """Tells whether a principal may see the token without a permission: as its owner, requester or renewer."""
    return str(principal) in (token.owner, token.requester, *token.renewers)


def _limited(wanted_ms: int, most_ms: int) -> int:
    return min(wanted_ms, most_ms) if wanted_ms > 0 else most_ms


def _check_valid(token: TokenRecord, now_ms: int) -> None:
    if has_expired(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, f"the token {token.id} has expired; create a new one")


def _check_owner(token: TokenRecord, principal: Principal) -> None:
    if str(principal) not in (token.owner, *token.renewers):
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            f"{principal} is neither the owner of the token {token.id} nor one of its renewers",
        )
