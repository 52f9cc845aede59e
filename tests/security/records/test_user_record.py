"""Stored users."""

from msgspec.structs import replace
from security_samples import ALICE, CREDENTIAL, OTHER_CREDENTIAL

from tailrace.security.records.user_record import SCRAM_SHA_256, SCRAM_SHA_512


def test_a_user_has_one_credential_for_each_mechanism() -> None:
    assert ALICE.credential(SCRAM_SHA_256) == CREDENTIAL
    assert ALICE.credential(SCRAM_SHA_512) is None
    assert replace(ALICE, credentials=(CREDENTIAL, OTHER_CREDENTIAL)).credential(SCRAM_SHA_512) == OTHER_CREDENTIAL


def test_the_text_of_a_user_contains_no_key() -> None:
    assert repr(ALICE) == "UserRecord(name='alice', credentials=(ScramCredential(SCRAM-SHA-256, iterations=4096),))"
