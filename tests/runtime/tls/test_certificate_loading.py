import ssl

import pytest
from certificates import authority_pem, server_certificate
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tailrace.runtime.tls.certificate_loading import client_context, load_certificate, trusted_text


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


def test_a_password_that_the_library_does_not_take_is_an_error_of_the_file() -> None:
    key, marker, chain = server_certificate().partition(b"-----BEGIN CERT")
    encrypted = load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"opensesame")
    )
    with pytest.raises(OSError):
        load_certificate(ssl.create_default_context(), encrypted + marker + chain, "x" * 2000)


@pytest.mark.parametrize("comment", [b"# Beh\xc3\xb6rde\n", b"# Beh\xf6rde\n", b"\xef\xbb\xbf", b"# \x00\n", b""])
def test_comments_between_trusted_certificates_may_have_any_characters(comment: bytes) -> None:
    text = (comment + authority_pem()).decode(errors="replace")
    assert client_context(text).cert_store_stats()["x509_ca"] == 1
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=trusted_text(text))
    assert context.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize("text", ["", " \n", "nothing", "\ufffd\ufffd\x00\x02", "-----BEGIN CERTIFICATE-----\n\xe4"])
def test_a_text_without_certificates_never_means_the_authorities_of_the_system(text: str) -> None:
    with pytest.raises(OSError):
        client_context(text)
    assert client_context(None).verify_mode is ssl.CERT_REQUIRED
