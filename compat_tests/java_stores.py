"""Key and trust stores of Java, made from the PEM files of `tailrace certificate`."""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from secured_broker import SecuredBroker

PASSWORD = "store-password"


def java_stores(broker: SecuredBroker, directory: Path) -> dict[str, str]:
    """Makes both stores as PKCS #12, and returns the settings of a client of Java that uses them."""
    encryption = BestAvailableEncryption(PASSWORD.encode())
    trust, keys = directory / "trust.p12", directory / "keys.p12"
    authority = x509.load_pem_x509_certificate(broker.authority.read_bytes())
    trust.write_bytes(pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority, b"ca")], encryption))
    pem = broker.certificate.read_bytes()
    certificate, *chain = x509.load_pem_x509_certificates(pem)
    key = load_pem_private_key(pem, None)
    keys.write_bytes(pkcs12.serialize_key_and_certificates(b"alice", key, certificate, chain, encryption))
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": PASSWORD,
    }
