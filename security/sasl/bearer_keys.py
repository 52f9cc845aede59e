"""The public keys that sign bearer tokens, from a JSON Web Key Set (RFC 7517).

Only public keys with which a token can be verified are taken. Symmetric keys are refused, because a server that accepts
them can be talked into verifying a token with a public key as the secret.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

ALGORITHMS: Mapping[str, str] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The algorithms that a token may be signed with, and the kind of key that each needs."""
KEYS_MAX = 1000


class KeySetError(Exception):
    """A key set cannot be used. The message is one sentence."""


class SigningKey(NamedTuple):
    """A public key of a key set."""

    id: str | None
    kind: str
    algorithm: str | None
    """The one algorithm that the key is for; None if it is for each that its kind allows."""
    key: Any
    """The key as the cryptography library has it."""


class SigningKeys:
    """The usable keys of a key set."""

    def __init__(self, keys: Sequence[SigningKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """Returns the key that a token names; without a name, the key that alone is possible."""
        kind = ALGORITHMS.get(algorithm)
        fitting = [
            key
            for key in self._keys
            if key.kind == kind and key.algorithm in (None, algorithm) and (key_id is None or key.id == key_id)
        ]
        return fitting[0] if len(fitting) == 1 else None


def parse_key_set(data: bytes) -> SigningKeys:
    """Parses a key set. Raises KeySetError if it has no usable key."""
    import jwt  # takes 40 ms with the cryptography library, and only OAUTHBEARER needs it

    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError:
        raise KeySetError("the key set is not JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise KeySetError('the key set has no list "keys"')
    if len(entries) > KEYS_MAX:
        raise KeySetError(f"the key set has {len(entries)} keys; {KEYS_MAX} are allowed")
    keys = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("kty") not in set(ALGORITHMS.values()) or "d" in entry:
            continue  # symmetric keys, private keys, and kinds that we do not know
        if entry.get("use", "sig") != "sig":
            continue
        algorithm = entry.get("alg")
        if algorithm is not None and algorithm not in ALGORITHMS:
            continue
        try:
            parsed = jwt.PyJWK(entry, algorithm or _any_algorithm(entry))
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        keys.append(SigningKey(entry.get("kid"), entry["kty"], algorithm, parsed.key))
    if not keys:
        raise KeySetError("the key set has no public key that signs tokens (RSA, EC or OKP)")
    return SigningKeys(keys)


def _any_algorithm(entry: Mapping[str, Any]) -> str:
    """Returns an algorithm for which the library can parse the key."""
    curves = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
    if entry["kty"] == "EC":
        return curves.get(str(entry.get("crv")), "ES256")
    return {"RSA": "RS256", "OKP": "EdDSA"}[entry["kty"]]
