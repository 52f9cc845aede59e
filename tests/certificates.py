"""Certificates for tests: an authority, servers and clients."""

import ssl
from datetime import UTC, datetime, timedelta
from functools import cache

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@cache
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@cache
def server_certificate(*names: str) -> bytes:
    """Returns the key and the certificates of a server, in PEM."""
    issued = authority().issue_cert(*(names or ("localhost", "127.0.0.1")), key_type=trustme.KeyType.ECDSA)
    return issued.private_key_and_cert_chain_pem.bytes()


@cache
def client_certificate(name: str) -> bytes:
    """Returns the key and the certificate of a user whose distinguished name is `CN=NAME,OU=Sales,O=Example`."""
    issued = authority().issue_cert(
        f"{name}@example.org",
        common_name=name,
        organization_name="Example",
        organization_unit_name="Sales",
        key_type=trustme.KeyType.ECDSA,
    )
    return issued.private_key_and_cert_chain_pem.bytes()


@cache
def unreadable_certificate() -> bytes:
    """Returns the key and the certificate of a client with a DNS name that is no text."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    signer = x509.load_pem_x509_certificate(authority_pem())
    signing_key = serialization.load_pem_private_key(authority().private_key_pem.bytes(), None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    alternative_names = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.17"), b"\x30\x03\x82\x01\xff")
    made = (
        x509.CertificateBuilder(signer.subject, x509.Name([]), key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(alternative_names, critical=False)
        .sign(signing_key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private + made.public_bytes(encoding)


@cache
def malformed_authority(alternative_names: bytes) -> bytes:
    """Returns the certificate of an authority whose alternative names have this DER. OpenSSL does not look at them."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "malformed")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.17"), alternative_names), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


WRONG_ADDRESS, UNKNOWN_KIND = b"\x30\x05\x87\x03\x01\x02\x03", b"\x30\x02\xa3\x00"
"""Alternative names that the library cannot read: an address of three bytes, and a name of an unknown kind."""


@cache
def nameless_certificate() -> bytes:
    """Returns the key and a certificate of a client, without a common name."""
    issued = authority().issue_cert("sc@example.org", key_type=trustme.KeyType.ECDSA)
    return issued.private_key_and_cert_chain_pem.bytes()


@cache
def foreign_certificate(*names: str) -> bytes:
    """Returns the key and the certificates of a server that another authority has signed, in PEM."""
    issued = trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert(*names, key_type=trustme.KeyType.ECDSA)
    return issued.private_key_and_cert_chain_pem.bytes()


def private_tls(*names: str, is_foreign: bool = False) -> dict[str, str]:
    """Returns the settings of a server whose private port is encrypted, with a certificate for the names.

    If it is foreign, another authority has signed it.
    """
    certificate = foreign_certificate(*names) if is_foreign else server_certificate(*names)
    key, marker, chain = certificate.decode().partition("-----BEGIN CERT")
    return {
        "listener.security.protocol.map": "PRIVATE:SSL",
        "listener.name.private.ssl.keystore.key": key,
        "listener.name.private.ssl.keystore.certificate.chain": marker + chain,
        "listener.name.private.ssl.truststore.certificates": authority_pem().decode(),
    }


def authority_pem() -> bytes:
    return authority().cert_pem.bytes()


def client_context(certificate: bytes = b"") -> ssl.SSLContext:
    """Returns the context of a client that trusts the authority."""
    from tailrace.runtime.tls.certificate_loading import load_certificate

    context = ssl.create_default_context(cadata=authority_pem().decode())
    if certificate:
        load_certificate(context, certificate)
    return context


def server_context() -> ssl.SSLContext:
    from tailrace.runtime.tls.certificate_loading import load_certificate

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, server_certificate())
    return context
