"""The configs of one SPU: static ones from its start, and dynamic ones for it or for all SPUs, which override them."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tailrace.cluster.similar_names import similar
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.settings import SettingsError
from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.security.settings.listener_overrides import override_of, split_override

from .broker_config_table import BROKER_CONFIGS, RACK_AWARE_SELECTOR
from .config_definitions import ConfigDefinition, ConfigSource, ConfiguredValue, Value, parse, text_of
from .quota_config_table import overrides_of
from .security_config_table import is_per_listener


class BrokerSettings(Struct, frozen=True):
    """The typed values that apply now; the whole struct is replaced when a value changes."""

    partitions_default: int
    replication_factor_default: int
    auto_create_topics: bool
    delete_topics: bool
    election_wait_seconds: float
    lease_seconds: float
    rebalances_leaders: bool
    leader_imbalance_check_seconds: int
    deleted_topic_retention_ms: int
    retention_check_interval_ms: int
    compacts: bool
    compaction_backoff_ms: int
    scrub_bytes_per_second: int
    """The scrub rate; 0 turns scrubbing off."""
    scrub_interval_ms: int
    producer_expiration_ms: int
    allows_consumer_groups: bool
    """Whether groups may use the consumer protocol of KIP-848."""
    offsets_partitions: int
    offsets_replicas: int
    offsets_segment_bytes: int
    offsets_commit_timeout_ms: int
    transactions_partitions: int
    transactions_replicas: int
    transactions_replicas_min: int
    """The value of `min.insync.replicas` for the topic of transactions."""
    transactions_segment_bytes: int
    transaction_timeout_ms_max: int
    transactional_id_expiration_ms: int
    verifies_transactions: bool
    """Whether the partitions of older transactional producers are verified."""
    connections_max: int
    connections_per_address_max: int
    connections_of_addresses_max: Mapping[str, int]
    """The limits of addresses that have one of their own."""
    connection_rate_max: int
    """How many clients may connect per second."""
    quota_window: QuotaWindow
    mutation_window: QuotaWindow
    """The window of quotas on changes of the cluster."""
    connection_idle_ms_max: int
    request_bytes_max: int
    queued_request_bytes_max: int
    fetch_bytes_max: int
    fetch_sessions_max: int
    described_partitions_max: int
    reads_from_near_replicas: bool
    """Whether leaders refer consumers to followers in their racks."""


class BrokerConfigs:
    """The configs of one SPU, by name and typed."""

    def __init__(self, static: Mapping[str, str], facts: Mapping[str, str] | None = None) -> None:
        """Takes the static configs, and further facts that Kafka's tools see as configs: id, listeners and directory.

        Raises SettingsError if a config is wrong.
        """
        self._static = _checked(static) | dict(facts or {})
        self._dynamic_default: Mapping[str, str] = {}
        self._dynamic_own: Mapping[str, str] = {}
        self._check_together()
        self.settings = self._typed()

    # state

    @property
    def dynamic_default(self) -> Mapping[str, str]:
        """The dynamic configs for all SPUs."""
        return self._dynamic_default

    @property
    def dynamic_own(self) -> Mapping[str, str]:
        """The dynamic configs for this SPU alone, which take precedence."""
        return self._dynamic_own

    def layered(self, names: Iterable[str]) -> list[ConfiguredValue]:
        """Returns the values that were set for synonymous configs, the one that applies first; no defaults."""
        names = tuple(names)
        layers = (
            (self._dynamic_own, ConfigSource.DYNAMIC_BROKER),
            (self._dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self._static, ConfigSource.STATIC_BROKER),
        )
        return [
            ConfiguredValue(name, layer[name], source)
            for layer, source in layers
            if layer
            for name in names
            if name in layer
        ]

    def values(self, definition: ConfigDefinition) -> list[ConfiguredValue]:
        """Returns all values of a broker config, the one that applies first; empty if it has none."""
        values = self.layered((definition.name,))
        if definition.default is not None:
            values.append(ConfiguredValue(definition.name, text_of(definition.default), ConfigSource.DEFAULT))
        return values

    def value(self, name: str) -> Value:
        """Returns the value of a config that applies."""
        definition = BROKER_CONFIGS[name]
        values = self.layered((name,))
        return parse(definition, values[0].text) if values else definition.default

    def limit_of_listener(self, name: str, listener: str) -> int | None:
        """Returns the limit that one listener has of its own; None if it has none."""
        text = self._static.get(override_of(name, listener))
        found = None if text is None else parse(BROKER_CONFIGS[name], text)
        assert found is None or isinstance(found, int)
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns the value of a list config."""
        value = self.value(name)
        assert isinstance(value, tuple), "the config must be a list with a default"
        return value

    def number(self, name: str) -> int:
        """Returns the value of a config that is a whole number."""
        value = self.value(name)
        assert isinstance(value, int), "the config must be a whole number with a default"
        return value

    # called by the source of specs

    def use_rack(self, rack: str | None) -> None:
        """Sets the rack, which is a fact from the registration."""
        self._static.pop("broker.rack", None)
        if rack is not None:
            self._static["broker.rack"] = rack

    def use_dynamic(self, own: Mapping[str, str], default: Mapping[str, str]) -> None:
        """Replaces the dynamic configs."""
        self._dynamic_own = dict(own)
        self._dynamic_default = dict(default)
        self.settings = self._typed()

    def _typed(self) -> BrokerSettings:
        return BrokerSettings(
            partitions_default=self.number("num.partitions"),
            replication_factor_default=self.number("default.replication.factor"),
            auto_create_topics=bool(self.value("auto.create.topics.enable")),
            delete_topics=bool(self.value("delete.topic.enable")),
            election_wait_seconds=self.number("election.wait.response.ms") / 1000,
            lease_seconds=self.number("broker.session.timeout.ms") / 1000,
            rebalances_leaders=bool(self.value("auto.leader.rebalance.enable")),
            leader_imbalance_check_seconds=self.number("leader.imbalance.check.interval.seconds"),
            deleted_topic_retention_ms=self.number("deleted.topic.retention.ms"),
            retention_check_interval_ms=self.number("log.retention.check.interval.ms"),
            compacts=bool(self.value("log.cleaner.enable")),
            compaction_backoff_ms=max(self.number("log.cleaner.backoff.ms"), COMPACTION_BACKOFF_MS_MIN),
            scrub_bytes_per_second=self.number("scrub.max.bytes.per.second"),
            scrub_interval_ms=self.number("scrub.interval.ms"),
            producer_expiration_ms=self.number("producer.id.expiration.ms"),
            allows_consumer_groups="consumer" in self.texts("group.coordinator.rebalance.protocols"),
            offsets_partitions=self.number("offsets.topic.num.partitions"),
            offsets_replicas=self.number("offsets.topic.replication.factor"),
            offsets_segment_bytes=self.number("offsets.topic.segment.bytes"),
            offsets_commit_timeout_ms=self.number("offsets.commit.timeout.ms"),
            transactions_partitions=self.number("transaction.state.log.num.partitions"),
            transactions_replicas=self.number("transaction.state.log.replication.factor"),
            transactions_replicas_min=self.number("transaction.state.log.min.isr"),
            transactions_segment_bytes=self.number("transaction.state.log.segment.bytes"),
            transaction_timeout_ms_max=self.number("transaction.max.timeout.ms"),
            transactional_id_expiration_ms=self.number("transactional.id.expiration.ms"),
            verifies_transactions=bool(self.value("transaction.partition.verification.enable")),
            connections_max=self.number("max.connections"),
            connections_per_address_max=self.number("max.connections.per.ip"),
            connections_of_addresses_max=overrides_of(self.texts("max.connections.per.ip.overrides")),
            connection_rate_max=self.number("max.connection.creation.rate"),
            quota_window=self._quota_window("quota.window"),
            mutation_window=self._quota_window("controller.quota.window"),
            connection_idle_ms_max=self.number("connections.max.idle.ms"),
            request_bytes_max=self.number("socket.request.max.bytes"),
            queued_request_bytes_max=self.number("queued.max.request.bytes"),
            fetch_bytes_max=self.number("fetch.max.bytes"),
            fetch_sessions_max=self.number("max.incremental.fetch.session.cache.slots"),
            described_partitions_max=self.number("max.request.partition.size.limit"),
            reads_from_near_replicas=self.value("replica.selector.class") == RACK_AWARE_SELECTOR,
        )

    def _quota_window(self, prefix: str) -> QuotaWindow:
        return QuotaWindow(self.number(f"{prefix}.num"), self.number(f"{prefix}.size.seconds") * 1000.0)

    def _check_together(self) -> None:
        """Checks the configs that depend on each other; none of them can be changed at run time."""
        for low, high in _ASCENDING:
            if self.number(low) > self.number(high):
                raise SettingsError(
                    f"{low}: {self.number(low)} is not allowed; it must be at most {high}, which is {self.number(high)}"
                )
        interval, timeout = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
        if self.number(interval) >= self.number(timeout):
            raise SettingsError(f"{interval} must be shorter than {timeout}")


_ASCENDING = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
)
"""Pairs of configs. In each pair, the first must be at most the second."""
_FLAGS = {
    "broker.id": "--id",
    "node.id": "--id",
    "broker.rack": "registration",
    "log.dirs": "--data",
    "listeners": "--public",
    "advertised.listeners": "--public",
}
"""The setting of an SPU that each fact comes from."""

COMPACTION_BACKOFF_MS_MIN = 100
"""The shortest rest of compaction; with less, the SPU would do nothing but look for segments to compact."""


def _checked(static: Mapping[str, str]) -> dict[str, str]:
    checked = {}
    for name, text in static.items():
        definition = definition_of(name)
        if definition is None:
            raise SettingsError(f"there is no broker setting {name!r}{_similar(name)}")
        if name in _FLAGS:
            raise SettingsError(f"{name} cannot be set directly; it follows from the SPU's {_FLAGS[name]}")
        try:
            checked[name] = text_of(parse(definition, text)) or ""
        except KafkaError as error:
            raise SettingsError(error.message) from error
    return checked


def definition_of(name: str) -> ConfigDefinition | None:
    """Returns the definition of a broker config, also of one for a single listener; None if there is none."""
    definition = BROKER_CONFIGS.get(name)
    if definition is not None:
        return definition
    override = split_override(name)
    if override is None or not is_per_listener(override[1]):
        return None
    return BROKER_CONFIGS.get(override[1])


def _similar(name: str) -> str:
    close = similar(name, BROKER_CONFIGS)
    return "" if close is None else f"; did you mean {close!r}?"
