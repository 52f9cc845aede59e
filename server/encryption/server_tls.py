"""TLS of one listener: its certificate and the authorities it trusts, which are read again when their files change."""

import math
import ssl

import trio
from msgspec import Struct

from tailrace.runtime.files import Files
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection
from tailrace.runtime.settings import SettingsError
from tailrace.runtime.tls.certificate_loading import load_certificate, pem_of_pkcs12, trusted_text
from tailrace.runtime.tls.tls_connection import TlsConnection
from tailrace.security.identity.distinguished_names import Subject, name_of_subject
from tailrace.security.identity.principal import ANONYMOUS, Principal
from tailrace.security.identity.principal_mapping import PrincipalMapping
from tailrace.security.settings.secret import Secret
from tailrace.security.settings.tls_settings import ClientAuth, TlsSettings

CHECK_SECONDS = 1.0
"""How often the files are compared, at most. Nothing is compared while nothing connects."""
SCRATCH_BYTES = 256 * 1024
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class TlsMaterial(Struct, frozen=True):
    """The contents of the files."""

    certificate: bytes
    """The private key and the certificates."""
    trusted: str
    """The certificates of authorities."""


class ServerTls:
    """TLS of one listener, for the connections that it accepts and, on private listeners, for those that it makes."""

    def __init__(self, settings: TlsSettings, listener: str, files: Files, logger: FilteringBoundLogger) -> None:
        """Reads the files. Raises SettingsError."""
        self._settings = settings
        self._listener = listener
        self._files = files
        self._logger = logger
        self._mapping = PrincipalMapping(settings.mapping_rules)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._converted: dict[str, tuple[bytes, bytes]] = {}
        """By setting, a store in the format PKCS12 and its content in PEM, because it takes long to open."""
        self._material = self._read()
        self._accepting, self._connecting = self._contexts(self._material)
        self._check_at = -math.inf
        self._refused: str | None = None
        """Why changed files were refused; None if they were not."""

    def accept(self, connection: Connection) -> TlsConnection:
        """Returns the encrypted connection of a client, which has to shake hands."""
        self._refresh()
        return TlsConnection(connection, self._accepting, server_side=True, scratch=self._scratch)

    def connect(self, connection: Connection) -> TlsConnection:
        """Returns the encrypted connection to another server of this cluster, which has to shake hands."""
        self._refresh()
        return TlsConnection(connection, self._connecting, scratch=self._scratch)

    def principal_of(self, connection: TlsConnection) -> Principal:
        """Returns the user whom the client's certificate names; without a certificate, anonymous.

        Raises UnmappedNameError.
        """
        certificate = connection.peer_certificate()
        if certificate is None:
            return ANONYMOUS
        subject: Subject = certificate["subject"]  # type: ignore[assignment]
        return self._mapping.principal_of(name_of_subject(subject))

    def current_material(self) -> TlsMaterial:
        """Returns the contents of the files that new connections use. It is the same object while nothing changes."""
        self._refresh()
        return self._material

    # files

    def _refresh(self) -> None:
        """Takes over changed files. Connections that exist keep what they have agreed on."""
        now = trio.current_time()
        if now < self._check_at:
            return
        self._check_at = now + CHECK_SECONDS
        try:
            material = self._read()
            if material == self._material:
                self._refused = None
                return
            contexts = self._contexts(material)
        except Exception as error:  # No contents of files may end a server that runs.
            reason = str(error) or type(error).__name__
            if self._refused != reason:
                self._refused = reason
                self._logger.error("certificate_not_reloaded", listener=self._listener, reason=self._refused)
            return
        self._material, self._refused = material, None
        self._accepting, self._connecting = contexts
        self._logger.info("certificate_reloaded", listener=self._listener)

    def _read(self) -> TlsMaterial:
        settings = self._settings
        if settings.keystore_path is not None:
            certificate = self._content("ssl.keystore.location", settings.keystore_path, settings.keystore_password)
        else:
            assert settings.key is not None
            certificate = f"{settings.key.reveal()}\n{settings.certificates}\n".encode(errors="replace")
        trusted = settings.trusted or ""
        if settings.truststore_path is not None:
            content = self._content("ssl.truststore.location", settings.truststore_path, settings.truststore_password)
            trusted = content.decode(errors="replace")
        return TlsMaterial(certificate, trusted)

    def _content(self, setting: str, path: str, password: Secret | None) -> bytes:
        """Returns the content of a file in PEM. A `password` says that the file has the format PKCS12."""
        try:
            content = self._files.read(path)
        except OSError as error:
            raise SettingsError(f"{setting} {path}: {error.strerror or error}") from error
        if password is None:
            return content
        before, converted = self._converted.get(setting, (b"", b""))
        if content != before:
            try:
                converted = pem_of_pkcs12(content, password.reveal())
            except ValueError as error:
                raise SettingsError(
                    f"{setting} {path} is not a store in the format PKCS12, or its password is wrong"
                ) from error
            self._converted[setting] = content, converted
        return converted

    def _contexts(self, material: TlsMaterial) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Returns the contexts for connections that are accepted, and for those that are made."""
        accepting, connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        accepting.verify_mode = _VERIFY[self._settings.client_auth]
        connecting.check_hostname = False  # The caller compares the id in the certificate.
        for context in (accepting, connecting):
            context.minimum_version = _VERSIONS[self._settings.protocols[0]]
            context.maximum_version = _VERSIONS[self._settings.protocols[-1]]
            context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
            self._load(context, material)
        return accepting, connecting

    def _load(self, context: ssl.SSLContext, material: TlsMaterial) -> None:
        where = self._settings.keystore_path or "ssl.keystore.key"
        password = self._settings.key_password
        try:
            load_certificate(context, material.certificate, "" if password is None else password.reveal())
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{where} is not the private key of a server with its certificates in PEM, or ssl.key.password is "
                f"wrong: {_reason(error)}"
            ) from error
        if self._settings.has_trust:
            try:
                context.load_verify_locations(cadata=trusted_text(material.trusted))
            except (OSError, ValueError) as error:
                where = self._settings.truststore_path or "ssl.truststore.certificates"
                raise SettingsError(f"{where} has no certificates of authorities in PEM: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
