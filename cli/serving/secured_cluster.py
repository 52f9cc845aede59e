"""The files and settings of a cluster that `tailrace up --secure` has closed: certificates, and the first user.

All of them are in the directory `security` of the data directory. A cluster that has this directory stays secure, also
if a later `up` does not ask for it.
"""

import base64
import os
from collections.abc import Iterable

from tailrace.runtime.network import WILDCARD_HOSTS, outgoing_host
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SettingsError
from tailrace.security.certificates.certificate_facts import certificate_facts
from tailrace.security.certificates.certificate_making import (
    Authority,
    CertificateError,
    make_authority,
    make_server_certificate,
)
from tailrace.security.identity.server_names import SC_NAME, spu_name
from tailrace.security.settings.security_settings import PROTOCOL_MAP

from .endpoint_protocols import SECURED_PROTOCOLS

FIRST_USER = "admin"
PASSWORD_BYTES = 18
RENEW_DAYS = 30
"""A certificate that expires earlier is replaced when its server starts."""
AUTHORITY_NAME = "Tailrace cluster"
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_CHOSEN = (PROTOCOL_MAP, "ssl.keystore.location", "ssl.truststore.location")
"""The settings that a person cannot give together with --secure."""
_CLIENT_CONFIG = """\
# The user {user} of this cluster, for the commands of Tailrace and of Apache Kafka: --client-config, --command-config.
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="{user}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
"""


def check_given(given: Iterable[str]) -> None:
    """Refuses settings that `--secure` chooses itself. Raises SettingsError."""
    for name in given:
        if name in _CHOSEN or (name.startswith("listener.name.") and name.endswith((".location", ".key"))):
            raise SettingsError(
                f"{name}: `tailrace up --secure` chooses it; leave it out, or leave --secure out and set everything"
            )


def hosts_of(listeners: Iterable[ListenerSettings]) -> tuple[str, ...]:
    """Returns the names and addresses at which clients may reach the servers of this machine."""
    hosts = dict.fromkeys(LOCAL_HOSTS)
    hosts[os.uname().nodename] = None
    for listener in listeners:
        for address in (listener.address, listener.advertised):
            if address is not None and address.host not in WILDCARD_HOSTS:
                hosts[address.host] = None
            elif address is not None and (outside := outgoing_host()) is not None:
                hosts[outside] = None
    return tuple(hosts)


class SecuredCluster:
    """The security of one local cluster."""

    def __init__(self, data_directory: str, hosts: Iterable[str], seams: Seams) -> None:
        """Prepares the directory; nothing is read or written before a method is called."""
        self.directory = f"{data_directory}/security"
        self._hosts = tuple(hosts)
        self._files = seams.files
        self._now_ms = seams.wall_clock.now_ms
        self._chance = seams.chance

    @property
    def client_config(self) -> str:
        """The file with which commands log in as the first user."""
        return f"{self.directory}/client.properties"

    def prepare(self) -> None:
        """Makes the authority of the cluster unless it exists. Raises OSError."""
        self._files.make_directories(self.directory)
        if self._files.exists(self._trusted):
            return
        for name in self._files.list(self.directory):
            if name.endswith(".pem"):  # a certificate of an authority that was removed
                self._files.remove(f"{self.directory}/{name}")
        authority = make_authority(AUTHORITY_NAME, self._now_ms())
        self._write(self._signing_key, authority.key)
        self._write(self._trusted, authority.certificate)  # last, because its existence says that all is there

    def check_authority(self) -> None:
        """Raises SettingsError if a closed cluster has lost its authority.

        Without this refusal, the loss of one file would open the cluster to everybody.
        """
        if not self._files.exists(self._trusted):
            raise SettingsError(
                f"{self._trusted} is missing, and the cluster was closed: bring the file back, start with --secure to "
                f"get new certificates, or remove {self.directory} to open the cluster to everybody"
            )

    def sc_settings(self) -> dict[str, str]:
        """Returns the settings of the Streaming Controller. Raises OSError."""
        return self._settings("sc", SC_NAME)

    def spu_settings(self, spu: int) -> dict[str, str]:
        """Returns the settings of an SPU. Raises OSError."""
        return self._settings(f"spu-{spu}", spu_name(spu))

    def new_password(self) -> str:
        """Returns a password for the first user and saves it for commands. Raises OSError."""
        password = base64.urlsafe_b64encode(self._chance.secret(PASSWORD_BYTES)).decode()
        trusted = os.path.abspath(self._trusted)
        text = _CLIENT_CONFIG.format(user=FIRST_USER, password=password, trusted=trusted)
        self._write(self.client_config, text.encode())
        return password

    def saved_password(self) -> str | None:
        """Returns the password that commands use; None if the file was removed or changed by hand."""
        try:
            text = self._files.read(self.client_config).decode(errors="replace")
        except FileNotFoundError:
            return None
        _, _, rest = text.partition(f'username="{FIRST_USER}" password="')
        return rest.partition('"')[0] or None

    @property
    def has_client_config(self) -> bool:
        """Whether the file with which commands log in exists."""
        return self._files.exists(self.client_config)

    @property
    def _trusted(self) -> str:
        return f"{self.directory}/ca.pem"

    @property
    def _signing_key(self) -> str:
        return f"{self.directory}/ca-key.pem"

    def _settings(self, file_name: str, server_name: str) -> dict[str, str]:
        path = f"{self.directory}/{file_name}.pem"
        self._ensure_certificate(path, file_name, (*self._hosts, server_name))
        return {
            PROTOCOL_MAP: SECURED_PROTOCOLS,
            "ssl.keystore.location": path,
            "ssl.truststore.location": self._trusted,
            "authorizer.class.name": "tailrace",
            "super.users": f"User:{FIRST_USER}",
        }

    def _ensure_certificate(self, path: str, name: str, hosts: tuple[str, ...]) -> None:
        """Makes the certificate of a server if it has none for these hosts that is valid for long enough."""
        now_ms = self._now_ms()
        if self._files.exists(path) and self._is_good(self._files.read(path), hosts, now_ms):
            return
        authority = Authority(self._files.read(self._trusted), self._files.read(self._signing_key))
        try:
            self._write(path, make_server_certificate(authority, name, hosts, now_ms))
        except CertificateError as error:
            raise OSError(f"{self.directory}: {error}") from error

    def _is_good(self, pem: bytes, hosts: tuple[str, ...], now_ms: int) -> bool:
        try:
            facts = certificate_facts(pem)[0]
        except CertificateError:
            return False
        return set(hosts) <= set(facts.hosts) and facts.days_left(now_ms) >= RENEW_DAYS

    def _write(self, path: str, content: bytes) -> None:
        """Writes or replaces a file that only the user of this process can read."""
        new = f"{path}.new"
        if self._files.exists(new):
            self._files.remove(new)
        self._files.write_private(new, content)
        self._files.rename(new, path)
