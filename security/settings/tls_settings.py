"""The settings of TLS on one listener: certificates, trust, and what is asked of clients."""

from enum import StrEnum

from msgspec import Struct

from tailrace.runtime.settings import SettingsError

from .secret import Secret
from .setting_texts import SettingTexts

PEM, PKCS12 = "PEM", "PKCS12"
TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"
PROTOCOLS = (TLS_1_2, TLS_1_3)


class ClientAuth(StrEnum):
    """Whether clients must show a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsSettings(Struct, frozen=True):
    """Everything that a listener needs for TLS."""

    keystore_path: str | None
    """The file with the key and the certificates of the server; None if they are given as texts."""
    keystore_password: Secret | None
    """The password of a keystore in the format PKCS12; None if it is PEM."""
    key: Secret | None
    """The private key as a PEM text."""
    certificates: str | None
    """The certificate of the server and those above it, as PEM text."""
    key_password: Secret | None
    truststore_path: str | None
    """The file with the certificates of authorities; None without one."""
    truststore_password: Secret | None
    """The password of a truststore in the format PKCS12; None if it is PEM."""
    trusted: str | None
    """The certificates of authorities as PEM text."""
    client_auth: ClientAuth
    protocols: tuple[str, ...]
    """The versions of TLS, the oldest first."""
    mapping_rules: str
    """The text of `ssl.principal.mapping.rules`."""

    @property
    def has_trust(self) -> bool:
        """Whether authorities for the certificates of peers are given."""
        return self.truststore_path is not None or self.trusted is not None


def parse_tls_settings(texts: SettingTexts, listener: str, *, is_mutual: bool) -> TlsSettings:
    """Parses the settings of TLS of a listener. Raises SettingsError.

    `is_mutual` says that the peers of the listener are our own servers, which always need a certificate.
    """
    keystore, key = texts.of("ssl.keystore.location", listener), texts.of("ssl.keystore.key", listener)
    certificates = texts.of("ssl.keystore.certificate.chain", listener)
    if keystore is not None and (key is not None or certificates is not None):
        raise SettingsError(
            f"{texts.name_of('ssl.keystore.location', listener)}: give a file, or ssl.keystore.key with "
            "ssl.keystore.certificate.chain, but not both"
        )
    if (key is None) != (certificates is None):
        raise SettingsError("ssl.keystore.key and ssl.keystore.certificate.chain need each other")
    if keystore is None and key is None:
        raise SettingsError(
            f"the listener {listener} uses TLS and has no certificate: set ssl.keystore.location to a PEM file with "
            "the key and the certificates, such as `tailrace certificate make` creates"
        )
    truststore, trusted = (
        texts.of("ssl.truststore.location", listener),
        texts.of("ssl.truststore.certificates", listener),
    )
    if truststore is not None and trusted is not None:
        raise SettingsError("give ssl.truststore.location or ssl.truststore.certificates, but not both")
    auth = ClientAuth(texts.one_of("ssl.client.auth", tuple(ClientAuth), ClientAuth.NONE, listener))
    if is_mutual:
        auth = ClientAuth.REQUIRED
    if auth is not ClientAuth.NONE and truststore is None and trusted is None:
        raise SettingsError(
            f"the listener {listener} checks the certificates of its peers and trusts no authority: set "
            "ssl.truststore.location to a PEM file with the certificates of authorities"
        )
    password = texts.of("ssl.key.password", listener)
    return TlsSettings(
        keystore_path=keystore,
        keystore_password=_store_password(texts, "ssl.keystore", listener),
        key=None if key is None else Secret(key),
        certificates=certificates,
        key_password=None if password is None else Secret(password),
        truststore_path=truststore,
        truststore_password=_store_password(texts, "ssl.truststore", listener),
        trusted=trusted,
        client_auth=auth,
        protocols=_protocols(texts, listener),
        mapping_rules=texts.of("ssl.principal.mapping.rules", listener) or "DEFAULT",
    )


def _store_password(texts: SettingTexts, store: str, listener: str) -> Secret | None:
    """Returns the password of a store in the format PKCS12; None if the store is PEM. Raises SettingsError."""
    kind, password = texts.of(f"{store}.type", listener) or PEM, texts.of(f"{store}.password", listener)
    if kind not in (PEM, PKCS12):
        raise SettingsError(
            f"{texts.name_of(f'{store}.type', listener)}: {kind[:50]!r} is not supported; convert the store to PKCS12, "
            "for example with: keytool -importkeystore -srckeystore store.jks -destkeystore store.p12 "
            "-deststoretype PKCS12"
        )
    if kind == PEM:
        if password is not None:
            raise SettingsError(
                f"{texts.name_of(f'{store}.password', listener)} has no effect, because {store}.type is not PKCS12"
            )
        return None
    if texts.of(f"{store}.location", listener) is None or password is None:
        raise SettingsError(
            f"{texts.name_of(f'{store}.type', listener)}: PKCS12 needs {store}.location and {store}.password"
        )
    return Secret(password)


def _protocols(texts: SettingTexts, listener: str) -> tuple[str, ...]:
    given = texts.listed("ssl.enabled.protocols", listener) or PROTOCOLS
    for each in given:
        if each not in PROTOCOLS:
            raise SettingsError(
                f"{texts.name_of('ssl.enabled.protocols', listener)}: {each[:50]!r} is not allowed; it takes "
                f"{' and '.join(PROTOCOLS)}"
            )
    return tuple(each for each in PROTOCOLS if each in given)
