"""Stored delegation tokens."""

from security_samples import CREDENTIAL, TOKEN

from tailrace.security.records.user_record import SCRAM_SHA_256, SCRAM_SHA_512


def test_a_token_has_one_credential_for_each_mechanism() -> None:
    assert TOKEN.credential(SCRAM_SHA_256) == CREDENTIAL
    assert TOKEN.credential(SCRAM_SHA_512) is None


def test_the_text_of_a_token_contains_no_key() -> None:
    assert "stored" not in repr(TOKEN)
    assert "server" not in repr(TOKEN)
