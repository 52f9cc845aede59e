"""The table of all broker configs about quotas and the rate of new connections, with names and defaults of Kafka."""

from collections.abc import Mapping

from tailrace.security.quotas.quota_rules import canonical_address

from .config_definitions import ConfigDefinition, ConfigType, Rule, Value, at_least, between

INT, LIST = ConfigType.INT, ConfigType.LIST
UNBOUNDED = 2**31 - 1
_SAMPLES_MAX = 1000
_SAMPLE_SECONDS_MAX = 3600


def overrides_of(entries: tuple[str, ...]) -> Mapping[str, int]:
    """Parses entries such as `10.0.0.1:200`. Raises ValueError."""
    overrides = {}
    for entry in entries:
        host, _, count = entry.rpartition(":")
        address = canonical_address(host.strip().removeprefix("[").removesuffix("]"))
        if address is None or not count.strip().isdecimal() or not 0 <= int(count) <= UNBOUNDED:
            raise ValueError(entry)
        overrides[address] = int(count)
    return overrides


def _are_overrides(value: Value) -> bool:
    try:
        overrides_of(value if isinstance(value, tuple) else ())
    except ValueError:
        return False
    return True


BROKER_CONFIGS_OF_QUOTAS = (
    ConfigDefinition(
        "max.connections.per.ip.overrides",
        LIST,
        (),
        "Other limits than max.connections.per.ip for some addresses, as ADDRESS:COUNT.",
        Rule("a comma-separated list of ADDRESS:COUNT, such as 10.0.0.1:200", _are_overrides),
    ),
    ConfigDefinition(
        "max.connection.creation.rate",
        INT,
        UNBOUNDED,
        "How many clients may connect to this SPU per second, on average over the window of quotas. Others wait until "
        "they are accepted.",
        at_least(1),
    ),
    *(
        ConfigDefinition(name, INT, default, text, between(1, high), read_only=True)
        for name, default, high, text in (
            ("quota.window.num", 11, _SAMPLES_MAX, "How many samples the window has over which quotas are averaged."),
            ("quota.window.size.seconds", 1, _SAMPLE_SECONDS_MAX, "How long each of these samples is."),
            (
                "controller.quota.window.num",
                11,
                _SAMPLES_MAX,
                "For how many samples a client may save up unused changes of its controller_mutation_rate.",
            ),
            ("controller.quota.window.size.seconds", 1, _SAMPLE_SECONDS_MAX, "How long each of these samples is."),
        )
    ),
)
