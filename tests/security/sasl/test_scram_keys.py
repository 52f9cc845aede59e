import base64

from sasl_samples import PASSWORD, SALT, alice

from tailrace.security.sasl.scram_keys import (
    SCRAM_MECHANISMS,
    client_proof,
    credential_of_password,
    fits,
    proves,
    salt_password,
    server_signature,
)

EXAMPLE = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)


def test_proof_and_signature_are_those_of_the_example_in_rfc_7677() -> None:
    salted = salt_password("SCRAM-SHA-256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    proof = client_proof("SCRAM-SHA-256", salted, EXAMPLE)
    assert base64.b64encode(proof) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    signature = server_signature("SCRAM-SHA-256", salted, EXAMPLE)
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_right_password_proves_itself_and_another_does_not() -> None:
    for mechanism in SCRAM_MECHANISMS:
        proof = client_proof(mechanism, salt_password(mechanism, PASSWORD, SALT, 4096), b"message")
        assert proves(alice(mechanism), proof, b"message")
        assert not proves(alice(mechanism), proof, b"another message")
        assert not proves(alice(mechanism), proof[:-1], b"message")
        assert fits(alice(mechanism), PASSWORD) and not fits(alice(mechanism), "wrong")


def test_salts_and_mechanisms_change_the_keys() -> None:
    keys = {credential_of_password(m, PASSWORD, s).stored_key for m in SCRAM_MECHANISMS for s in (b"one", b"two")}
    assert len(keys) == 4
