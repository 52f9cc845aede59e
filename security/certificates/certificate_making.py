"""Makes a certificate authority, and certificates that it signs.

Keys are made by OpenSSL with its own random numbers, not with those of the chance seam: nothing may repeat them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

AUTHORITY_DAYS = 3650
SERVER_DAYS = 365
CLIENT_DAYS = 365
SKEW = timedelta(hours=1)
"""A certificate is valid a little before it is made, because the clocks of machines differ."""
NAME_CHARACTERS_MAX = 64
"""The longest common name that X.509 allows."""


class CertificateError(Exception):
    """A certificate cannot be made. The message is one sentence."""


class Authority(Struct, frozen=True):
    """A certificate authority, as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Authority(…)"


def make_authority(name: str, now_ms: int, days: int = AUTHORITY_DAYS) -> Authority:
    """Makes an authority, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _begin(subject, subject, key.public_key(), now_ms, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    signed = builder.sign(key, hashes.SHA256())
    return Authority(signed.public_bytes(serialization.Encoding.PEM), _pem_of(key))


def make_server_certificate(
    authority: Authority, name: str, hosts: Sequence[str], now_ms: int, days: int = SERVER_DAYS
) -> bytes:
    """Makes a certificate for a server that clients reach at `hosts`, which are names and IP addresses.

    Returns PEM: the private key, the certificate, and that of the authority. The server may use it as a client too.
    """
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return _make(authority, name, hosts, usages, now_ms, days)


def make_client_certificate(authority: Authority, name: str, now_ms: int, days: int = CLIENT_DAYS) -> bytes:
    """Makes a certificate for a client. A server with the usual rules takes it for the user `CN=name`.

    Returns PEM: the private key, the certificate, and that of the authority.
    """
    return _make(authority, name, (), [ExtendedKeyUsageOID.CLIENT_AUTH], now_ms, days)


def _make(
    authority: Authority,
    name: str,
    hosts: Sequence[str],
    usages: Sequence[x509.ObjectIdentifier],
    now_ms: int,
    days: int,
) -> bytes:
    try:
        signer = x509.load_pem_x509_certificate(authority.certificate)
        signing_key = serialization.load_pem_private_key(authority.key, None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"the certificate or the key of the authority is not PEM: {error}") from error
    if not isinstance(signing_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the key of the authority is not one that `tailrace certificate make` has made")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _begin(_name(name), signer.subject, key.public_key(), now_ms, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    signed = builder.sign(signing_key, hashes.SHA256())
    return _pem_of(key) + signed.public_bytes(serialization.Encoding.PEM) + authority.certificate


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now_ms: int, days: int
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(name: str) -> x509.Name:
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise CertificateError(f"{name[:100]!r} is not a name of 1 to {NAME_CHARACTERS_MAX} characters")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise CertificateError(f"{host[:100]!r} is not the name or address of a host: {error}") from error


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
