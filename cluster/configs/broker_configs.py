"""The configs of one SPU: what it was started with, and over that what was set at run time, here or for all SPUs."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.settings import SettingsError

from .broker_config_table import BROKER_CONFIGS, RACK_AWARE_SELECTOR
from .config_definitions import ConfigDefinition, ConfigSource, ConfiguredValue, Value, parse, text_of


class BrokerSettings(Struct, frozen=True):
    """The values that apply now, typed. Replaced as a whole when one changes."""

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
    """0: nothing is scrubbed."""
    scrub_interval_ms: int
    producer_expiration_ms: int
    allows_consumer_groups: bool
    """Whether groups may use the consumer protocol, that of KIP-848."""
    offsets_partitions: int
    offsets_replicas: int
    offsets_segment_bytes: int
    offsets_commit_timeout_ms: int
    connections_max: int
    connections_per_address_max: int
    connection_idle_ms_max: int
    request_bytes_max: int
    queued_request_bytes_max: int
    fetch_bytes_max: int
    fetch_sessions_max: int
    described_partitions_max: int
    reads_from_near_replicas: bool
    """Whether leaders tell consumers of followers in their racks."""


class BrokerConfigs:
    def __init__(self, static: Mapping[str, str], facts: Mapping[str, str] | None = None) -> None:
        """`static` is what the person who started the SPU set; `facts` are its id, listeners and directory, which
        stand elsewhere in the settings but are configs to Kafka's tools. Raises SettingsError."""
        self._static = _checked(static) | dict(facts or {})
        self._dynamic_default: Mapping[str, str] = {}
        self._dynamic_own: Mapping[str, str] = {}
        self._check_together()
        self.settings = self._typed()

    # what is

    @property
    def dynamic_default(self) -> Mapping[str, str]:
        """What was set at run time for all SPUs."""
        return self._dynamic_default

    @property
    def dynamic_own(self) -> Mapping[str, str]:
        """What was set at run time for this SPU alone; it wins."""
        return self._dynamic_own

    def layered(self, names: Iterable[str]) -> list[ConfiguredValue]:
        """Where any of these configs, which mean the same, was set: the one that applies first, without defaults."""
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
        """Where this broker config has a value, the one that applies first; empty if it has none at all."""
        values = self.layered((definition.name,))
        if definition.default is not None:
            values.append(ConfiguredValue(definition.name, text_of(definition.default), ConfigSource.DEFAULT))
        return values

    def value(self, name: str) -> Value:
        definition = BROKER_CONFIGS[name]
        values = self.layered((name,))
        return parse(definition, values[0].text) if values else definition.default

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.value(name)
        assert isinstance(value, tuple), "the table gives it a list and a default"
        return value

    def number(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int), "the table gives it a whole number and a default"
        return value

    # what the source of specs says

    def use_rack(self, rack: str | None) -> None:
        """One more fact: the rack in the registration."""
        self._static.pop("broker.rack", None)
        if rack is not None:
            self._static["broker.rack"] = rack

    def use_dynamic(self, own: Mapping[str, str], default: Mapping[str, str]) -> None:
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
            connections_max=self.number("max.connections"),
            connections_per_address_max=self.number("max.connections.per.ip"),
            connection_idle_ms_max=self.number("connections.max.idle.ms"),
            request_bytes_max=self.number("socket.request.max.bytes"),
            queued_request_bytes_max=self.number("queued.max.request.bytes"),
            fetch_bytes_max=self.number("fetch.max.bytes"),
            fetch_sessions_max=self.number("max.incremental.fetch.session.cache.slots"),
            described_partitions_max=self.number("max.request.partition.size.limit"),
            reads_from_near_replicas=self.value("replica.selector.class") == RACK_AWARE_SELECTOR,
        )

    def _check_together(self) -> None:
        """What no config can be checked for alone; none of these can be altered at run time."""
        for low, high in _ASCENDING:
            if self.number(low) > self.number(high):
                raise SettingsError(
                    f"{low}: {self.number(low)} is not allowed; it is at most {high}, which is {self.number(high)}"
                )
        interval, timeout = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
        if self.number(interval) >= self.number(timeout):
            raise SettingsError(f"{interval} is not allowed to be as long as {timeout}")


_ASCENDING = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
)
"""Pairs of which the first is at most the second."""
_FLAGS = {
    "broker.id": "--id",
    "node.id": "--id",
    "broker.rack": "registration",
    "log.dirs": "--data",
    "listeners": "--public",
    "advertised.listeners": "--public",
}
"""Where the facts of an SPU stand in its settings."""

COMPACTION_BACKOFF_MS_MIN = 100
"""Who sets less means that compaction is not to rest, and would have the SPU do nothing else."""


def _checked(static: Mapping[str, str]) -> dict[str, str]:
    checked = {}
    for name, text in static.items():
        definition = BROKER_CONFIGS.get(name)
        if definition is None:
            raise SettingsError(f"there is no broker setting {name!r}{_similar(name)}")
        if name in _FLAGS:
            raise SettingsError(f"{name} is not set by itself: it is what an SPU's {_FLAGS[name]} says")
        try:
            checked[name] = text_of(parse(definition, text)) or ""
        except KafkaError as error:
            raise SettingsError(error.message) from error
    return checked


def _similar(name: str) -> str:
    import difflib  # only for the person who mistyped: it is slow to load

    close = difflib.get_close_matches(name, BROKER_CONFIGS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
