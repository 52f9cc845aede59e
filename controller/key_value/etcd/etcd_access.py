"""How the SC reaches etcd: its members, TLS, and the user, from `--store` and the file of `--store-config`.

The user and the password are in the file only, so that no command line and no environment shows them.
"""

import ssl
from collections.abc import Sequence

from msgspec import Struct

from tailrace.runtime.files import Files
from tailrace.runtime.network import Address, Connection, Listener, Network, is_loopback
from tailrace.runtime.settings import SettingsError
from tailrace.runtime.tls.certificate_loading import client_context, load_certificate
from tailrace.runtime.tls.tls_connection import connect_tls
from tailrace.security.settings.property_files import parse_properties, read_pem, read_text
from tailrace.security.settings.secret import Secret

_TRUST, _KEYSTORE, _KEY_PASSWORD = "ssl.truststore.location", "ssl.keystore.location", "ssl.key.password"
_USER, _PASSWORD = "username", "password"
_NAMES = (_TRUST, _KEYSTORE, _KEY_PASSWORD, _USER, _PASSWORD)
_ADVICE = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": f"it requires a client certificate: set {_KEYSTORE} in the file of "
    "--store-config",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses the client certificate, or requires one",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the authority of the client certificate",
    "WRONG_VERSION_NUMBER": "it does not speak TLS: enable TLS there, or write etcd:// in place of etcds://",
}
"""What errors of the library mean, where its own words do not help."""


class EtcdAccess(Struct, frozen=True):
    """The members of an etcd cluster, and the credentials."""

    endpoints: Sequence[Address]
    is_encrypted: bool = False
    truststore_path: str | None = None
    """The PEM file with the authorities whose certificates of servers count; None for those of the system."""
    keystore_path: str | None = None
    """The PEM file with the client certificate and its key; None without one."""
    key_password: Secret = Secret("")
    user: str = ""
    """The user in etcd; empty if etcd has no authentication."""
    password: Secret = Secret("")

    def tls(self, files: Files) -> ssl.SSLContext:
        """Reads the PEM files and returns the settings of TLS. Raises SettingsError, and OSError for a wrong PEM."""
        trusted = None if self.truststore_path is None else read_pem(self.truststore_path, files)
        try:
            context = client_context(trusted)
        except OSError as error:
            reason = f"{self.truststore_path} has no certificates of authorities in PEM: {reason_of(error)}"
            raise SettingsError(reason) from error
        if self.keystore_path is not None:
            load_certificate(context, read_pem(self.keystore_path, files).encode(), self.key_password.reveal())
        return context


class EtcdNetwork:
    """A network whose connections are encrypted. The files are read for each, so that certificates can be renewed."""

    def __init__(self, network: Network, files: Files, access: EtcdAccess) -> None:
        self._network = network
        self._files = files
        self._access = access

    async def listen(self, address: Address) -> Listener:
        """Listens without TLS. The SC never listens as an etcd."""
        return await self._network.listen(address)

    async def connect(self, address: Address) -> Connection:
        """Connects, and returns when the server has proven its name. Raises OSError."""
        try:
            return await connect_tls(self._network, address, self._access.tls(self._files), address.host)
        except ssl.SSLError as error:
            raise OSError(f"{address}: {reason_of(error)}") from error
        except SettingsError as error:
            raise OSError(str(error)) from error


def read_access(
    endpoints: Sequence[Address], config_path: str | None, files: Files, *, is_encrypted: bool
) -> EtcdAccess:
    """Reads the file of `--store-config`, if there is one, and checks the files that it names.

    Raises SettingsError, whose message has no secret.
    """
    access = EtcdAccess(endpoints, is_encrypted)
    if config_path is not None:
        try:
            access = _access(parse_properties(read_text(config_path, files)), access)
        except SettingsError as error:
            raise SettingsError(f"--store-config {config_path}: {error}") from None
    if is_encrypted:
        try:
            access.tls(files)
        except (OSError, SettingsError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            raise SettingsError(f"--store-config {config_path}: {reason}") from error
    return access


def reason_of(error: Exception) -> str:
    """Returns why a connection to etcd cannot be used, as the part of a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason is not None:
        return _ADVICE.get(error.reason, error.reason.replace("_", " ").lower())
    return str(error)


def _access(given: dict[str, str], plain: EtcdAccess) -> EtcdAccess:
    for name in given:
        if name not in _NAMES:
            raise SettingsError(f"{name[:100]!r} is not one of {', '.join(_NAMES)}")
        if name.startswith("ssl.") and not plain.is_encrypted:
            raise SettingsError(f"{name} has no effect without TLS: write etcds:// in place of etcd://")
    user, password = given.get(_USER, ""), given.get(_PASSWORD, "")
    if bool(user) != bool(password):
        raise SettingsError(f"{_USER} and {_PASSWORD} need each other")
    if given.get(_KEY_PASSWORD) and not given.get(_KEYSTORE):
        raise SettingsError(f"{_KEY_PASSWORD} has no effect without {_KEYSTORE}")
    if user and not plain.is_encrypted and not all(is_loopback(each.host) for each in plain.endpoints):
        raise SettingsError(
            f"{_PASSWORD}: everybody between the SC and etcd could read it; enable TLS in etcd, and write etcds:// in "
            "place of etcd://"
        )
    return EtcdAccess(
        plain.endpoints,
        plain.is_encrypted,
        given.get(_TRUST) or None,
        given.get(_KEYSTORE) or None,
        Secret(given.get(_KEY_PASSWORD, "")),
        user,
        Secret(password),
    )
