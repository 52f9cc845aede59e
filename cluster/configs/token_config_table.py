"""The table of the broker configs about delegation tokens, with Kafka's names."""

from .config_definitions import ConfigDefinition, ConfigType, at_least

HOUR_MS = 60 * 60 * 1000
SECRET_KEY = "delegation.token.secret.key"
LIFETIME_MAX = "delegation.token.max.lifetime.ms"
EXPIRY = "delegation.token.expiry.time.ms"

BROKER_CONFIGS_OF_TOKENS = (
    ConfigDefinition(
        SECRET_KEY,
        ConfigType.PASSWORD,
        None,
        "The secret from which the Streaming Controller computes the HMACs of delegation tokens. Without it, there are "
        "no tokens. SPUs do not use it.",
        read_only=True,
        sensitive=True,
    ),
    ConfigDefinition(
        LIFETIME_MAX,
        ConfigType.LONG,
        7 * 24 * HOUR_MS,
        "How long a delegation token can be renewed.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        EXPIRY,
        ConfigType.LONG,
        24 * HOUR_MS,
        "How long a delegation token is valid until it has to be renewed.",
        at_least(1),
        read_only=True,
    ),
)
