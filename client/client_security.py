"""How a client protects its connections and proves who it is, from a file of settings with Kafka's names.

The file is the one that Kafka's own tools take (`--command-config`), and librdkafka's names work as well. Settings that
have nothing to do with security are skipped. A setting of security that has no effect is refused.
"""

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from tailrace.runtime.files import Files
from tailrace.runtime.settings import SettingsError
from tailrace.security.records.user_record import SCRAM_SHA_256, SCRAM_SHA_512
from tailrace.security.settings.property_files import parse_properties, read_pem, read_text
from tailrace.security.settings.secret import Secret

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512, PLAIN, OAUTHBEARER)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_SASL = ("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "sasl.jaas.config", _TOKEN_URL)
_TRUST = ("ssl.truststore.location", "ssl.ca.location", "ssl.truststore.certificates", "ssl.ca.pem")
_KEYS = ("ssl.keystore.location", "ssl.certificate.location", "ssl.keystore.certificate.chain", "ssl.certificate.pem")
_PRIVATE_KEYS = ("ssl.key.location", "ssl.keystore.key", "ssl.key.pem")
_IDENTIFICATION = "ssl.endpoint.identification.algorithm"
_TLS = (*_TRUST, *_KEYS, *_PRIVATE_KEYS, "ssl.key.password", _IDENTIFICATION)
_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
_OF_JAVA = re.compile(
    r"sasl\.(login|client)\..*|ssl\.(protocol|provider|enabled\.protocols|cipher\.suites|secure\.random\.implementation"
    r"|trustmanager\.algorithm|keymanager\.algorithm|engine\.factory\.class)|security\.providers"
)
"""Settings that tune Java clients. They do not change who the client is, so that a shared file may have them."""
_JAAS_OPTION = re.compile(r"""([A-Za-z_.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


class ClientSecurity(Struct, frozen=True):
    """How a client connects."""

    uses_tls: bool = False
    mechanism: str | None = None
    """The mechanism of SASL; None if the client does not log in."""
    user: str = ""
    password: Secret = Secret("")
    is_token: bool = False
    """Whether user and password are the id and the HMAC of a delegation token."""
    bearer_path: str | None = None
    """The file with the bearer token, which is read for each connection, because tokens are replaced."""
    trusted: str | None = None
    """The certificates of authorities as PEM; None for those of the system."""
    certificate: Secret | None = None
    """The certificate of the client with its key, as PEM."""
    key_password: Secret = Secret("")
    checks_names: bool = True
    """Whether the certificate of a server must have the server's name."""

    @property
    def is_plain(self) -> bool:
        """Whether connections need nothing at all."""
        return not self.uses_tls and self.mechanism is None

    def as_user(self, user: str, password: str) -> "ClientSecurity":
        """Returns the security of a client that logs in as another user, with the same mechanism if it takes one."""
        mechanism = PLAIN if self.mechanism in (None, OAUTHBEARER) else self.mechanism
        other = {"user": user, "password": Secret(password), "is_token": False, "bearer_path": None}
        return replace(self, mechanism=mechanism, **other)


def load_client_security(path: str, files: Files) -> ClientSecurity:
    """Reads a file of settings, and the PEM files that it names. Raises SettingsError."""
    try:
        return parse_client_security(parse_properties(read_text(path, files)), files)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def parse_client_security(given: Mapping[str, str], files: Files) -> ClientSecurity:
    """Parses settings, and reads the PEM files that they name. Raises SettingsError."""
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise SettingsError(f"security.protocol: {protocol[:50]!r} is not one of {', '.join(PROTOCOLS)}")
    uses_tls, uses_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    for name in given:
        _check_effect(name, protocol, uses_tls=uses_tls, uses_sasl=uses_sasl)
    fields: dict[str, object] = {}
    if uses_sasl:
        fields |= _sasl(given)
    if uses_tls:
        fields |= _tls(given, files)
    return ClientSecurity(uses_tls=uses_tls, **fields)  # type: ignore[arg-type]


def parse_jaas(text: str) -> dict[str, str]:
    """Returns the options of an entry of Java's login configuration, such as `username` and `password`."""
    return {
        name: re.sub(r"\\(.)", r"\1", double or single) or bare
        for name, double, single, bare in _JAAS_OPTION.findall(text)
    }


def _check_effect(name: str, protocol: str, *, uses_tls: bool, uses_sasl: bool) -> None:
    if name == "security.protocol" or not name.startswith(("sasl.", "ssl.", "security.")) or _OF_JAVA.fullmatch(name):
        return
    if name not in (*_SASL, *_TLS, *_TYPES, "ssl.truststore.password", "ssl.keystore.password"):
        raise SettingsError(f"{name[:100]}: the commands of Tailrace do not know this setting")
    if not (uses_sasl if name.startswith("sasl.") else uses_tls):
        raise SettingsError(f"{name} has no effect with security.protocol={protocol}")


def _sasl(given: Mapping[str, str]) -> dict[str, object]:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "")).upper()
    if mechanism not in MECHANISMS:
        raise SettingsError(f"sasl.mechanism: {mechanism[:50]!r} is not one of {', '.join(MECHANISMS)}")
    if mechanism == OAUTHBEARER:
        url = given.get(_TOKEN_URL, "")
        if not url.startswith("file:///"):
            raise SettingsError(f"{_TOKEN_URL}: name the file with the token as file:///PATH")
        return {"mechanism": mechanism, "bearer_path": url.removeprefix("file://")}
    options = parse_jaas(given.get("sasl.jaas.config", ""))
    user = given.get("sasl.username", options.get("username", ""))
    password = given.get("sasl.password", options.get("password", ""))
    if not user or not password:
        raise SettingsError("sasl.username and sasl.password, or both in sasl.jaas.config, are needed to log in")
    is_token = options.get("tokenauth", "").lower() == "true"
    return {"mechanism": mechanism, "user": user, "password": Secret(password), "is_token": is_token}


def _tls(given: Mapping[str, str], files: Files) -> dict[str, object]:
    for name in _TYPES:
        if given.get(name, "PEM").upper() != "PEM":
            raise SettingsError(f"{name}: only PEM is supported; convert the store with openssl")
    trusted = _pem(given, _TRUST, files)
    certificates, key = _pem(given, _KEYS, files), _pem(given, _PRIVATE_KEYS, files)
    if certificates is None and key is not None:
        raise SettingsError(
            "a private key needs its certificate: set ssl.keystore.location or ssl.certificate.location"
        )
    pair = None if certificates is None else "\n".join(filter(None, (key, certificates)))
    return {
        "trusted": trusted,
        "certificate": None if pair is None else Secret(pair),
        "key_password": Secret(given.get("ssl.key.password", "")),
        "checks_names": given.get(_IDENTIFICATION, "https") not in ("", "none"),
    }


def _pem(given: Mapping[str, str], names: tuple[str, ...], files: Files) -> str | None:
    """Returns the PEM that one of the settings has or names; None if none of them is given."""
    chosen = [name for name in names if given.get(name)]
    if len(chosen) > 1:
        raise SettingsError(f"{' and '.join(chosen)} mean the same: give one of them")
    if not chosen:
        return None
    value = given[chosen[0]]
    return read_pem(value, files) if chosen[0].endswith(".location") else value.replace("\\n", "\n")
