"""What people want to know about a certificate: its name, hosts, issuer, and how long it is valid."""

import re
from contextlib import suppress
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID
from msgspec import Struct

from .certificate_making import CertificateError

DAY_MS = 86_400_000
_BLOCK = re.compile(rb"-----BEGIN (X509 |)CERTIFICATE-----.*?-----END \1CERTIFICATE-----", re.DOTALL)


class CertificateFacts(Struct, frozen=True):
    """One certificate."""

    name: str
    issuer: str
    hosts: tuple[str, ...]
    """The names and addresses for which a server may show it."""
    is_authority: bool
    valid_from_ms: int
    valid_to_ms: int
    serial: str
    fingerprint: str
    """The SHA-256 of the certificate, in hexadecimal."""

    def days_left(self, now_ms: int) -> int:
        """Returns how many whole days it is still valid; negative if it has expired."""
        return (self.valid_to_ms - now_ms) // DAY_MS


def certificate_facts(pem: bytes) -> list[CertificateFacts]:
    """Returns the certificates of a PEM file in order. Keys in it are skipped. Raises CertificateError."""
    found = [_facts(each[0], number) for number, each in enumerate(_BLOCK.finditer(pem), 1)]
    if not found:
        raise CertificateError("there is no certificate in PEM")
    return found


def readable_facts(pem: bytes) -> list[CertificateFacts]:
    """Returns the certificates of a PEM file in order, without those that cannot be read."""
    found = []
    for number, each in enumerate(_BLOCK.finditer(pem), 1):
        with suppress(CertificateError):
            found.append(_facts(each[0], number))
    return found


def _facts(pem: bytes, number: int) -> CertificateFacts:
    """Returns the facts of one certificate, which has this number in its file. Raises CertificateError.

    Authorities have made certificates that OpenSSL accepts although a field of them is malformed. The library parses a
    field when it is asked for, and its errors have no class in common.
    """
    try:
        return _facts_of(x509.load_pem_x509_certificate(pem))
    except Exception as error:
        raise CertificateError(f"certificate {number} of the file cannot be read: {error}") from error


def _facts_of(found: x509.Certificate) -> CertificateFacts:
    return CertificateFacts(
        name=_common_name(found.subject),
        issuer=_common_name(found.issuer),
        hosts=_hosts(found),
        is_authority=_is_authority(found),
        valid_from_ms=_milliseconds(found.not_valid_before_utc),
        valid_to_ms=_milliseconds(found.not_valid_after_utc),
        serial=f"{found.serial_number:x}",
        fingerprint=found.fingerprint(hashes.SHA256()).hex(),
    )


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else name.rfc4514_string()


def _hosts(found: x509.Certificate) -> tuple[str, ...]:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(each.value) for each in names if isinstance(each, x509.DNSName | x509.IPAddress))


def _is_authority(found: x509.Certificate) -> bool:
    try:
        return found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _milliseconds(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp() * 1000)
