import hashlib
import hmac
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sasl_samples import (
    AUDIENCE,
    ISSUER,
    NOW_MS,
    claims,
    forged_parts,
    key_set,
    rsa_jwk,
    rsa_key,
    token,
    unsigned_token,
)

from tailrace.security.sasl.bearer_keys import parse_key_set
from tailrace.security.sasl.bearer_tokens import INSUFFICIENT_SCOPE, BearerError, BearerRules, BearerTokens

RULES = BearerRules(issuer=ISSUER, audiences=(AUDIENCE, "other"))
NOW = NOW_MS // 1000


def tokens(rules: BearerRules = RULES) -> BearerTokens:
    keys = parse_key_set(key_set())
    return BearerTokens(rules, lambda: keys, lambda: NOW_MS)


def refusal(sent: str, rules: BearerRules = RULES) -> BearerError:
    with pytest.raises(BearerError) as caught:
        tokens(rules).verify(sent)
    assert sent not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256"])
def test_a_signed_token_names_a_user(algorithm: str) -> None:
    bearer = tokens().verify(token(algorithm))
    assert bearer == ("alice", (NOW + 3600) * 1000, {"read", "write"})


def test_an_unsigned_token_is_refused() -> None:
    refusal(unsigned_token())
    for algorithm in ("none", "None", "NONE", ""):
        refusal(forged_parts({"alg": algorithm}, claims(), b""))


def test_a_public_key_is_never_used_as_the_secret_of_an_hmac() -> None:
    pem = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header: dict[str, Any] = {"alg": "HS256", "typ": "JWT", "kid": "first"}
    for secret in (pem, msgspec.json.encode(rsa_jwk())):
        unsigned = forged_parts(header, claims(), b"").rstrip(".")
        refusal(forged_parts(header, claims(), hmac.digest(secret, unsigned.encode(), hashlib.sha256)))


def test_a_changed_token_is_refused() -> None:
    header, body, signature = token().split(".")
    other = forged_parts({}, claims(sub="root"), b"").split(".")[1]
    refusal(f"{header}.{other}.{signature}")
    refusal(f"{header}.{body}.{signature[:-8]}AAAAAAAA")
    refusal(f"{header}.{body}")
    refusal("x" * 200_000)


def test_cve_2025_27817_keys_that_a_token_names_are_not_read() -> None:
    for name, value in (("jku", "file:///etc/passwd"), ("x5u", "http://192.0.2.1/"), ("jwk", rsa_jwk())):
        refusal(token(headers={"kid": "unknown", name: value}))
        assert tokens().verify(token(headers={name: value})).name == "alice", "the header has no effect"


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": None}, {"iss": "https://other.example"},
        {"aud": None}, {"aud": "another"}, {"aud": []}, {"aud": 7},
        {"exp": None}, {"exp": NOW - 31, "iat": NOW - 60}, {"exp": "soon"}, {"exp": True}, {"exp": 1e300},
        {"iat": None}, {"iat": NOW + 31}, {"iat": NOW + 3601, "exp": NOW + 3600},
        {"nbf": NOW + 31},
        {"sub": None}, {"sub": ""}, {"sub": " "}, {"sub": 7},
        {"scope": 7},
    ],
    ids=str,
)  # fmt: skip
def test_a_claim_that_is_missing_or_wrong_refuses_the_token(changed: dict[str, Any]) -> None:
    refusal(token(**changed))


def test_clocks_may_differ_a_little() -> None:
    assert tokens().verify(token(iat=NOW + 29, nbf=NOW + 29)).name == "alice"
    assert tokens().verify(token(exp=NOW - 29, iat=NOW - 60)).name == "alice"


def test_a_token_with_an_audience_is_refused_if_none_is_configured() -> None:
    rules = BearerRules(issuer=ISSUER)
    refusal(token(), rules)
    assert tokens(rules).verify(token(aud=None)).name == "alice"
    assert tokens().verify(token(aud=["x", "other"])).name == "alice"


def test_a_missing_scope_is_named() -> None:
    rules = BearerRules(audiences=(AUDIENCE,), required_scopes=("read", "admin"))
    error = refusal(token(), rules)
    assert (error.status, error.scope) == (INSUFFICIENT_SCOPE, "read admin")
    assert tokens(rules).verify(token(scope=["admin", "read"])).name == "alice"


def test_claims_may_have_other_names() -> None:
    rules = BearerRules(audiences=(AUDIENCE,), name_claim="client_id", scope_claim="scp", required_scopes=("x",))
    assert tokens(rules).verify(token(sub=None, client_id="bob", scp="x")).name == "bob"
