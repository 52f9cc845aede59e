"""The signatures of checkpoints: Ed25519, so that people can verify a log with a key that cannot sign.

With an HMAC, everybody who verifies a log could also forge it. `cryptography` is imported when a function needs it.
"""

import base64
import binascii
from typing import TYPE_CHECKING

from .audit_chain import ChainState

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class KeyFileError(Exception):
    """A file has no key of the right kind. The message is one sentence without the content of the file."""


class Signer:
    """Signs the ends of chains."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key

    def __repr__(self) -> str:
        return "<Signer>"

    def sign(self, state: ChainState) -> str:
        """Returns the signature of a chain up to its end."""
        return base64.b64encode(self._key.sign(_message(state))).decode()

    def public_pem(self) -> bytes:
        """Returns the key with which the signatures are verified."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def public_text(self) -> str:
        """Returns the key with which the signatures are verified, as a short text."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()


class SignatureCheck:
    """Verifies signatures of the ends of chains."""

    def __init__(self, key: "Ed25519PublicKey") -> None:
        self._key = key

    def public_text(self) -> str:
        """Returns the key as a short text."""
        return base64.b64encode(self._key.public_bytes_raw()).decode()

    def fits(self, state: ChainState, signature: object) -> bool:
        """Tells whether a signature is that of the chain."""
        from cryptography.exceptions import InvalidSignature

        if not isinstance(signature, str):
            return False
        try:
            self._key.verify(base64.b64decode(signature, validate=True), _message(state))
        except (InvalidSignature, binascii.Error):
            return False
        return True


def new_private_pem() -> bytes:
    """Returns a new random key for signatures."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def signer_of(pem: bytes) -> Signer:
    """Reads the key for signatures. Raises KeyFileError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError("it is not a private Ed25519 key in PEM format without a password")
    return Signer(key)


def signature_check_of(pem: bytes) -> SignatureCheck:
    """Reads the key that verifies signatures. Raises KeyFileError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError("it is not a public Ed25519 key in PEM format")
    return SignatureCheck(key)


def signature_check_of_text(text: str) -> SignatureCheck:
    """Reads the key that verifies signatures from the text of a signer. Raises KeyFileError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        return SignatureCheck(Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True)))
    except (ValueError, binascii.Error):
        raise KeyFileError("it is not a public Ed25519 key in base64") from None


def _message(state: ChainState) -> bytes:
    return f"tailrace audit log\n{state.number}\n{state.hash}\n".encode()
