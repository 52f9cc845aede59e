"""Certificates for tests: an authority, servers and clients."""

import ssl
from functools import cache

import trustme


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


def private_tls(*names: str) -> dict[str, str]:
    """Returns the settings of a server whose private port is encrypted, with a certificate for the names."""
    key, marker, chain = server_certificate(*names).decode().partition("-----BEGIN CERT")
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
