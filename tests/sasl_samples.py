"""Users, keys and tokens for tests of SASL."""

import base64
from functools import cache
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tailrace.security.identity.principal import Principal
from tailrace.security.records.user_record import ScramCredential
from tailrace.security.sasl.sasl_steps import HardWork, SaslExchange, Step, user
from tailrace.security.sasl.scram_exchange import ScramLogin
from tailrace.security.sasl.scram_keys import credential_of_password
from tailrace.security.sasl.unknown_users import UnknownUsers

ALICE = Principal("User", "alice")
PASSWORD = "alice-secret"
SALT = b"a salt of sixteen"
NOW_MS = 1_900_000_000_000
ISSUER = "https://issuer.example"
AUDIENCE = "tailrace"


@cache
def alice(mechanism: str) -> ScramCredential:
    """Returns the credential of alice."""
    return credential_of_password(mechanism, PASSWORD, SALT)


def find_alice(mechanism: str, name: str, is_token: bool = False) -> ScramLogin:
    """Finds alice, as the only user."""
    if name == "alice" and not is_token:
        return ScramLogin(alice(mechanism), user(name))
    return ScramLogin(UnknownUsers(lambda: b"secret").credential(mechanism, name), None)


def finish(exchange: SaslExchange, data: bytes) -> Step:
    """Takes one step, and does the hard work of it."""
    step = exchange.step(data)
    return step.conclude(step.compute()) if isinstance(step, HardWork) else step


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def rsa_jwk(**others: Any) -> dict[str, Any]:
    jwk = jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key().public_key(), as_dict=True)
    return {**jwk, "kid": "first", "use": "sig", **others}


def ec_jwk(**others: Any) -> dict[str, Any]:
    jwk = jwt.algorithms.ECAlgorithm.to_jwk(ec_key().public_key(), as_dict=True)
    return {**jwk, "kid": "second", "use": "sig", **others}


def key_set(*keys: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"keys": list(keys or (rsa_jwk(), ec_jwk()))})


def claims(**others: Any) -> dict[str, Any]:
    now = NOW_MS // 1000
    values = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, "scope": "read write"}
    return {name: value for name, value in {**values, **others}.items() if value is not None}


def token(algorithm: str = "RS256", headers: dict[str, Any] | None = None, **others: Any) -> str:
    """Returns a signed token; a claim that is None is left out."""
    key, kid = (rsa_key(), "first") if algorithm.startswith(("RS", "PS")) else (ec_key(), "second")
    return jwt.encode(claims(**others), key, algorithm, headers={"kid": kid, **(headers or {})})


def unsigned_token(**others: Any) -> str:
    return jwt.encode(claims(**others), None, "none")  # type: ignore[arg-type]


def forged_parts(header: dict[str, Any], body: dict[str, Any], signature: bytes) -> str:
    """Returns a token with any header and signature."""
    parts = [msgspec.json.encode(header), msgspec.json.encode(body), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
