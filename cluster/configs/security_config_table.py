"""The table of all broker configs about security. Names and defaults are those of Kafka 4.3.

`security/settings/` turns their texts into typed values. Names in `PER_LISTENER` may be set for one listener alone.
"""

from .config_definitions import ConfigDefinition, ConfigType, one_of, some_of

LIST, PASSWORD, STRING = ConfigType.LIST, ConfigType.PASSWORD, ConfigType.STRING

BROKER_CONFIGS_OF_SECURITY = (
    ConfigDefinition(
        "listener.security.protocol.map",
        LIST,
        (),
        "The protocol of each listener, as NAME:PROTOCOL. PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL are possible; "
        "PRIVATE and METRICS take PLAINTEXT or SSL. PUBLIC_1, PUBLIC_2 and so on follow PUBLIC if they are not named.",
        read_only=True,
    ),
    # TLS
    ConfigDefinition(
        "ssl.keystore.location",
        STRING,
        None,
        "The PEM file with the private key of the server, its certificate, and the certificates above it.",
        read_only=True,
    ),
    ConfigDefinition("ssl.keystore.type", STRING, "PEM", "The format of the keystore.", one_of("PEM"), read_only=True),
    ConfigDefinition(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "The private key of the server as PEM text, instead of a file.",
        read_only=True,
        sensitive=True,
    ),
    ConfigDefinition(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificate of the server and those above it as PEM text, instead of a file.",
        read_only=True,
        sensitive=True,
    ),
    ConfigDefinition(
        "ssl.key.password",
        PASSWORD,
        None,
        "The password of the private key, if it is encrypted.",
        read_only=True,
        sensitive=True,
    ),
    ConfigDefinition(
        "ssl.truststore.location",
        STRING,
        None,
        "The PEM file with the authorities whose certificates of peers are accepted.",
        read_only=True,
    ),
    ConfigDefinition(
        "ssl.truststore.type", STRING, "PEM", "The format of the truststore.", one_of("PEM"), read_only=True
    ),
    ConfigDefinition(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The certificates of authorities as PEM text, instead of a file.",
        read_only=True,
        sensitive=True,
    ),
    ConfigDefinition(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must show a certificate.",
        one_of("none", "requested", "required"),
        read_only=True,
    ),
    ConfigDefinition(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "The rules that make the name of a user from the distinguished name of a certificate.",
        read_only=True,
    ),
    ConfigDefinition(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that clients may use.",
        some_of("TLSv1.2", "TLSv1.3"),
        read_only=True,
    ),
)

PER_LISTENER_PREFIXES = ("ssl.",)
"""The beginnings of the names that may be set for one listener, as `listener.name.NAME.` and the setting."""
