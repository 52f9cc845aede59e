import ssl

import pytest
from certificates import server_certificate
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tailrace.runtime.tls.certificate_loading import load_certificate


def test_a_certificate_with_its_key_is_loaded_from_memory() -> None:
    context = ssl.create_default_context()
    load_certificate(context, server_certificate())
    with pytest.raises(ssl.SSLError):
        load_certificate(context, server_certificate().partition(b"-----BEGIN CERT")[0])


def test_an_encrypted_key_needs_its_password() -> None:
    key, marker, chain = server_certificate().partition(b"-----BEGIN CERT")
    encrypted = load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"opensesame")
    )
    context = ssl.create_default_context()
    load_certificate(context, encrypted + marker + chain, "opensesame")
    for wrong in ("", "guess"):
        with pytest.raises(OSError):
            load_certificate(context, encrypted + marker + chain, wrong)
