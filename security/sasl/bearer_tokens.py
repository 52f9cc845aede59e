"""Decides whether a bearer token (RFC 7519) proves who a client is: signature, issuer, audience, times and scope.

Whatever the token itself says about where keys are ("jku", "x5u", "jwk") has no effect. Keys come from the settings of
the server alone (CVE-2025-27817).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from .bearer_keys import ALGORITHMS, SigningKeys

INVALID_TOKEN = "invalid_token"
INSUFFICIENT_SCOPE = "insufficient_scope"
TOKEN_CHARACTERS_MAX = 100_000
NAME_CHARACTERS_MAX = 1000


class BearerError(Exception):
    """A token proves nothing. The message is for the log, and does not repeat the token."""

    def __init__(self, message: str, status: str = INVALID_TOKEN, scope: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The word that the protocol has for the reason; the client gets it."""
        self.scope = scope
        """The scope that the client must ask for."""


class BearerRules(Struct, frozen=True):
    """What a server requires of tokens."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    """The audiences for which tokens may be; a token for an audience is refused if there are none."""
    required_scopes: tuple[str, ...] = ()
    scope_claim: str = "scope"
    name_claim: str = "sub"
    skew_seconds: float = 30.0
    """How far the clock of the issuer may be from ours."""


class Bearer(NamedTuple):
    """Whom a token names."""

    name: str
    expires_ms: int
    scopes: frozenset[str]


class BearerTokens:
    """Verifies tokens by the rules of a server."""

    def __init__(self, rules: BearerRules, keys: Callable[[], SigningKeys], now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._keys = keys
        self._now_ms = now_ms

    def verify(self, token: str) -> Bearer:
        """Returns whom the token names. Raises BearerError."""
        import jwt  # takes 40 ms with the cryptography library, and only OAUTHBEARER needs it

        if len(token) > TOKEN_CHARACTERS_MAX:
            raise BearerError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise BearerError("the token is not a JSON Web Token") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise BearerError("the token is not signed with an algorithm that is allowed")
        key = self._keys().find(key_id, algorithm)
        if key is None:
            raise BearerError("no key of the key set fits the token")
        try:
            claims = jwt.decode(token, key.key, algorithms=[algorithm], options=_SIGNATURE_ONLY)
        except (jwt.PyJWTError, ValueError, TypeError):
            raise BearerError("the signature of the token is wrong") from None
        return self._check(claims)

    def _check(self, claims: Mapping[str, Any]) -> Bearer:
        rules = self._rules
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise BearerError("the token comes from another issuer")
        self._check_audience(claims.get("aud"))
        expires = self._check_times(claims)
        scopes = _words(claims.get(rules.scope_claim), rules.scope_claim)
        missing = [scope for scope in rules.required_scopes if scope not in scopes]
        if missing:
            scope = " ".join(rules.required_scopes)
            raise BearerError(f"the token lacks the scope {' '.join(missing)}", INSUFFICIENT_SCOPE, scope)
        name = claims.get(rules.name_claim)
        if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARACTERS_MAX:
            raise BearerError(f"the claim {rules.name_claim} of the token does not name a user")
        return Bearer(name, int(expires * 1000), scopes)

    def _check_audience(self, audience: object) -> None:
        if audience is None:
            if self._rules.audiences:
                raise BearerError("the token is for no audience, and sasl.oauthbearer.expected.audience is set")
            return
        names = [audience] if isinstance(audience, str) else audience
        if not isinstance(names, list) or not set(self._rules.audiences).intersection(
            name for name in names if isinstance(name, str)
        ):
            raise BearerError("the token is for another audience")

    def _check_times(self, claims: Mapping[str, Any]) -> float:
        """Checks when the token is valid; returns when it expires, in seconds since 1970."""
        now, skew = self._now_ms() / 1000, self._rules.skew_seconds
        expires = _seconds(claims, "exp")
        if expires is None:
            raise BearerError("the token does not say when it expires")
        if now >= expires + skew:
            raise BearerError("the token has expired")
        issued = _seconds(claims, "iat")
        if issued is None:
            raise BearerError("the token does not say when it was issued")
        if issued > now + skew or issued > expires:
            raise BearerError("the token was issued in the future, or after it expires")
        not_before = _seconds(claims, "nbf")
        if not_before is not None and not_before > now + skew:
            raise BearerError("the token is not valid yet")
        return expires


_SIGNATURE_ONLY: Any = {
    "verify_signature": True,
    **dict.fromkeys(
        ("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss", "verify_sub", "verify_jti"), False
    ),
}
"""The library checks the signature. The claims are checked here, with a clock that is an argument."""


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise BearerError(f"the claim {name} of the token is not a time")
    return float(value)


def _words(value: object, claim: str) -> frozenset[str]:
    """Returns the scopes of a claim, which is a text with blanks or a list."""
    words: Sequence[object] = value.split() if isinstance(value, str) else value if isinstance(value, list) else ()
    if value is not None and not isinstance(value, str | list):
        raise BearerError(f"the claim {claim} of the token is neither a text nor a list")
    return frozenset(word for word in words if isinstance(word, str))
