"""Finds the configs that apply to a topic (its own, the SPU's, or the default), and checks a topic's own configs."""

from collections.abc import Mapping

from tailrace.cluster.replication_policy import quorum_sizes
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .broker_config_table import BROKER_CONFIGS
from .broker_configs import BrokerConfigs
from .config_definitions import ConfigDefinition, ConfigSource, ConfiguredValue, Value, parse, text_of
from .topic_config_table import TOPIC_CONFIGS

UNLIMITED = -1
AS_RETENTION = -2
"""The value of local.retention.ms and local.retention.bytes that means the same as retention.ms or retention.bytes."""
TEXT_CHARACTERS_MAX = 32_767
"""The largest value that older versions of DescribeConfigs can carry.

The bound also limits the size of the topic, which is one object in the store.
"""


def check_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the configs in their canonical form. Raises KafkaError for the first wrong one."""
    checked: dict[str, str] = {}
    values: dict[str, Value] = {}
    for name, text in configs.items():
        definition = TOPIC_CONFIGS.get(name)
        if definition is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no topic config {name[:_QUOTED_CHARACTERS_MAX]!r}")
        values[name] = parse(definition, text)
        checked[name] = text_of(values[name]) or ""
        if len(checked[name]) > TEXT_CHARACTERS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{name}: {len(checked[name])} characters are not allowed; it takes at most {TEXT_CHARACTERS_MAX}",
            )
    _check_together(values)
    return checked


def check_for_replicas(configs: Mapping[str, str], replicas: int) -> None:
    """Raises KafkaError if valid configs do not suit partitions with so many replicas."""
    name = "replication.policy"
    if name in configs:
        try:
            quorum_sizes(configs[name], replicas)
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: {error}") from error


def check_unchanged(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises KafkaError if a config is changed that must stay as it was when the topic was created."""
    for definition in TOPIC_CONFIGS.values():
        if definition.read_only:
            default = text_of(definition.default)
            kept, asked = (configs.get(definition.name, default) for configs in (before, after))
            if kept != asked:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"{definition.name}: {asked} is not allowed; the topic was created with {kept} and must keep it",
                )


def places_of(
    definition: ConfigDefinition,
    own: Mapping[str, str],
    broker_configs: BrokerConfigs,
    source: ConfigSource = ConfigSource.TOPIC,
) -> list[ConfiguredValue]:
    """Returns all values of a config, the one that applies first, each with the name and unit of its place.

    The config is one of a topic, or of a group if `source` says so.
    """
    values = []
    if definition.name in own:
        values.append(ConfiguredValue(definition.name, own[definition.name], source))
    values.extend(broker_configs.layered(synonym.name for synonym in definition.synonyms))
    for synonym in definition.synonyms:
        if synonym.default is not None:
            values.append(ConfiguredValue(synonym.name, text_of(synonym.default), ConfigSource.DEFAULT))
    return values


def effective_value(
    definition: ConfigDefinition,
    own: Mapping[str, str],
    broker_configs: BrokerConfigs,
    source: ConfigSource = ConfigSource.TOPIC,
) -> tuple[Value, ConfigSource]:
    """Returns the value that applies to a topic or group, in the unit of its config, and where it was set."""
    if definition.name in own:
        return parse(definition, own[definition.name]), source
    for set_value in broker_configs.layered(synonym.name for synonym in definition.synonyms):
        value = parse(BROKER_CONFIGS[set_value.name], set_value.text)
        factor = next(each.milliseconds for each in definition.synonyms if each.name == set_value.name)
        if factor != 1 and isinstance(value, int) and value > 0:  # -1 means "no bound" in every unit
            value = min(value * factor, _LONG_MAX)
        return value, set_value.source
    return definition.default, ConfigSource.DEFAULT


_LONG_MAX = 2**63 - 1
_QUOTED_CHARACTERS_MAX = 200


def _check_together(values: Mapping[str, Value]) -> None:
    """Checks the configs that depend on each other."""

    def value(name: str) -> Value:
        return values.get(name, TOPIC_CONFIGS[name].default)

    low, high = value("min.compaction.lag.ms"), value("max.compaction.lag.ms")
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms: {low} is not allowed; it must be at most max.compaction.lag.ms, which is {high}",
        )
    if value("remote.storage.enable"):
        cleanup = value("cleanup.policy")
        assert isinstance(cleanup, tuple)
        _check_shelved(values, compacts="compact" in cleanup, is_unclean=value(_UNCLEAN) is True)


def _check_shelved(values: Mapping[str, Value], *, compacts: bool, is_unclean: bool) -> None:
    """Checks the configs of a topic with shelves, which never change after they are filled."""
    if compacts:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "remote.storage.enable: true is not allowed if cleanup.policy has compact",
        )
    if is_unclean:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"remote.storage.enable: true is not allowed if {_UNCLEAN} is true",
        )
    for local, total in (("local.retention.ms", "retention.ms"), ("local.retention.bytes", "retention.bytes")):
        here, all_of_it = values.get(local, AS_RETENTION), values.get(total, UNLIMITED)
        assert isinstance(here, int)
        assert isinstance(all_of_it, int)
        if all_of_it != UNLIMITED and here != AS_RETENTION and (here == UNLIMITED or here > all_of_it):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{local}: {here} is not allowed; it must be at most {total}, which is {all_of_it}",
            )


_UNCLEAN = "unclean.leader.election.enable"
