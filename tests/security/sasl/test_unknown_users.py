from tailrace.security.sasl.scram_keys import ITERATIONS, SALT_BYTES, fits
from tailrace.security.sasl.unknown_users import UnknownUsers


def test_a_name_has_the_same_salt_each_time_and_others_have_other_salts() -> None:
    unknown = UnknownUsers(lambda: b"secret")
    mallory = unknown.credential("SCRAM-SHA-256", "mallory")
    assert mallory == unknown.credential("SCRAM-SHA-256", "mallory")
    others = [unknown.credential("SCRAM-SHA-256", "bob"), unknown.credential("SCRAM-SHA-512", "mallory")]
    others.append(UnknownUsers(lambda: b"another").credential("SCRAM-SHA-256", "mallory"))
    assert mallory.salt not in {other.salt for other in others}


def test_the_credential_looks_like_one_that_we_create_and_no_password_fits() -> None:
    credential = UnknownUsers(lambda: b"secret").credential("SCRAM-SHA-512", "mallory")
    assert (len(credential.salt), credential.iterations) == (SALT_BYTES, ITERATIONS)
    assert len(credential.stored_key) == len(credential.server_key) == 64
    assert not fits(credential, "")


def test_a_repr_does_not_show_the_secret() -> None:
    assert "secret" not in repr(UnknownUsers(lambda: b"secret"))
