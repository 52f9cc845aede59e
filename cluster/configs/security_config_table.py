"""The table of all broker configs about security. Names and defaults are those of Kafka 4.3.

`security/settings/` turns their texts into typed values. `is_per_listener` tells which may be set for one listener.
"""

from .config_definitions import ConfigDefinition, ConfigType, at_least, between, one_of, some_of

INT, LIST, LONG = ConfigType.INT, ConfigType.LIST, ConfigType.LONG
PASSWORD, STRING = ConfigType.PASSWORD, ConfigType.STRING

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
    ConfigDefinition(
        "ssl.keystore.type",
        STRING,
        "PEM",
        "The format of the keystore. PKCS12 needs ssl.keystore.password.",
        one_of("PEM", "PKCS12"),
        read_only=True,
    ),
    ConfigDefinition(
        "ssl.keystore.password",
        PASSWORD,
        None,
        "The password of a keystore in the format PKCS12.",
        read_only=True,
        sensitive=True,
    ),
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
        "ssl.truststore.type",
        STRING,
        "PEM",
        "The format of the truststore. PKCS12 needs ssl.truststore.password.",
        one_of("PEM", "PKCS12"),
        read_only=True,
    ),
    ConfigDefinition(
        "ssl.truststore.password",
        PASSWORD,
        None,
        "The password of a truststore in the format PKCS12.",
        read_only=True,
        sensitive=True,
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
    # SASL
    ConfigDefinition(
        "sasl.enabled.mechanisms",
        LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "The mechanisms with which clients may log in.",
        some_of("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
        read_only=True,
    ),
    ConfigDefinition(
        "connections.max.reauth.ms",
        LONG,
        0,
        "How long a login lasts. A client that has not logged in again by then is disconnected. 0 stands for no limit.",
        at_least(0),
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.server.max.receive.size",
        INT,
        512 * 1024,
        "The largest request of a client that has not logged in, in bytes.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long the answer to a login that failed is held back.",
        between(0, 10_000),
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the public keys that sign bearer tokens are: file:///PATH or https://HOST/PATH. No other file or "
        "address is ever read for a token.",
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3_600_000,
        "How long the public keys are used before they are read again.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.oauthbearer.expected.audience",
        LIST,
        None,
        "The audiences for which a bearer token may be. Without it, a token that names an audience is refused.",
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        "The issuer from which a bearer token must come. Without it, any issuer is accepted.",
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.oauthbearer.required.scope",
        LIST,
        None,
        "The scopes that a bearer token must have. Apache Kafka has no such config.",
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        "The claim of a bearer token that has its scopes.",
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        "The claim of a bearer token that names the user.",
        read_only=True,
    ),
    ConfigDefinition(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "How far the clock of the issuer of bearer tokens may be from the one of this server.",
        between(0, 3600),
        read_only=True,
    ),
    # access rules
    ConfigDefinition(
        "authorizer.class.name",
        STRING,
        "",
        "The authorizer that checks access rules: tailrace, or the name of Kafka's StandardAuthorizer. "
        "Everybody may do everything if it is empty.",
        one_of("", "tailrace", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        read_only=True,
    ),
    ConfigDefinition(
        "super.users",
        STRING,
        None,
        "The users that may do everything, such as User:alice;User:bob.",
        read_only=True,
    ),
    ConfigDefinition(
        "allow.everyone.if.no.acl.found",
        ConfigType.BOOLEAN,
        False,
        "Whether everybody may use a resource that no access rule is about.",
        read_only=True,
    ),
)

CONNECTION_LIMITS = ("max.connections", "max.connection.creation.rate")
"""The limits of connections that may be set for one listener, besides those of the server."""


def is_per_listener(name: str) -> bool:
    """Tells whether a setting may be set for one listener, as `listener.name.NAME.` and the setting."""
    return name.startswith(("ssl.", "sasl.")) or name in ("connections.max.reauth.ms", *CONNECTION_LIMITS)
