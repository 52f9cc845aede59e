"""The signatures of audit logs."""

import pytest

from tailrace.security.audit.audit_chain import ChainState
from tailrace.security.audit.audit_signatures import (
    KeyFileError,
    new_private_pem,
    signature_check_of,
    signer_of,
)


def test_a_signature_fits_its_chain_and_no_other() -> None:
    pem = new_private_pem()
    signer = signer_of(pem)
    check = signature_check_of(signer.public_pem())
    signature = signer.sign(ChainState(5, "ab"))
    assert check.fits(ChainState(5, "ab"), signature)
    assert not check.fits(ChainState(6, "ab"), signature)
    assert not check.fits(ChainState(5, "ac"), signature)
    assert not check.fits(ChainState(5, "ab"), "no base64")
    assert not check.fits(ChainState(5, "ab"), None)
    other = signature_check_of(signer_of(new_private_pem()).public_pem())
    assert not other.fits(ChainState(5, "ab"), signature)


def test_the_key_that_verifies_does_not_sign() -> None:
    pem = new_private_pem()
    public = signer_of(pem).public_pem()
    with pytest.raises(KeyFileError, match="not a private Ed25519 key"):
        signer_of(public)
    for content in (pem, b"", b"-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----\n"):
        with pytest.raises(KeyFileError, match="not a public Ed25519 key"):
            signature_check_of(content)
    assert "PRIVATE" not in repr(signer_of(pem))
