import pytest
from sasl_samples import ec_jwk, key_set, rsa_jwk

from tailrace.security.sasl.bearer_keys import KeySetError, parse_key_set


def test_a_token_gets_the_key_that_it_names_if_the_kind_fits() -> None:
    keys = parse_key_set(key_set())
    assert len(keys) == 2
    assert keys.find("first", "RS256") is not None
    assert keys.find("first", "PS512") is not None
    assert keys.find("second", "RS256") is None
    assert keys.find("unknown", "RS256") is None


def test_a_token_that_names_no_key_gets_the_only_one_that_is_possible() -> None:
    assert parse_key_set(key_set()).find(None, "ES256") is not None
    assert parse_key_set(key_set(rsa_jwk(), rsa_jwk(kid="third"))).find(None, "RS256") is None


def test_a_key_for_one_algorithm_verifies_no_other() -> None:
    keys = parse_key_set(key_set(rsa_jwk(alg="RS256")))
    assert keys.find("first", "RS256") is not None
    assert keys.find("first", "RS512") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": [1, {"kty": "oct", "k": "c2VjcmV0"}]}',
        key_set(rsa_jwk(use="enc")),
        key_set(rsa_jwk(alg="HS256")),
        key_set(rsa_jwk(d="AQAB")),
        key_set(ec_jwk(x="!")),
        key_set({"kty": "RSA"}),
    ],
)
def test_a_set_without_a_public_key_for_signatures_is_refused(data: bytes) -> None:
    with pytest.raises(KeySetError):
        parse_key_set(data)
