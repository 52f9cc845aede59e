"""Makes and caches the settings of groups from the broker configs and the group configs.

Coordinators look up settings with every request, so they are made again only after a config was altered.
"""

from collections.abc import Mapping

from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs, BrokerSettings
from tailrace.cluster.configs.group_configs import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    number_for_group,
)
from tailrace.protocol.error_codes import KafkaError

MINUTE_MS = 60_000
NO_CONFIGS: Mapping[str, str] = {}


class GroupSettingsCache:
    def __init__(self, broker_configs: BrokerConfigs, cluster: Cluster) -> None:
        self._broker_configs = broker_configs
        self._cluster = cluster
        self._made_from: BrokerSettings | None = None
        """The settings of the broker from which `_common` was made. An altered config replaces this object."""
        self._common = GroupSettings()
        self._own: dict[str, tuple[Mapping[str, str], GroupSettings]] = {}
        """The configs of each group that has its own, and the settings that were made from them."""

    def of(self, group_id: str) -> GroupSettings:
        """Returns the settings of the group with this id."""
        if self._made_from is not self._broker_configs.settings:
            self._made_from = self._broker_configs.settings
            self._common = make_group_settings(NO_CONFIGS, self._broker_configs)
            self._own.clear()
        own = self._cluster.group_configs.get(group_id)
        if own is None:
            self._own.pop(group_id, None)
            return self._common
        made_from, settings = self._own.get(group_id, (None, self._common))
        if made_from is not own:
            try:
                settings = make_group_settings(own, self._broker_configs)
            except KafkaError:  # a version that allowed other values has stored them
                settings = self._common
            self._own[group_id] = own, settings
        return settings


def make_group_settings(own: Mapping[str, str], configs: BrokerConfigs) -> GroupSettings:
    return GroupSettings(
        members_max=configs.number("group.max.size"),
        session_timeout_ms_min=configs.number("group.min.session.timeout.ms"),
        session_timeout_ms_max=configs.number("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=configs.number("group.initial.rebalance.delay.ms"),
        offset_metadata_bytes_max=configs.number("offset.metadata.max.bytes"),
        offsets_retention_ms=configs.number("offsets.retention.minutes") * MINUTE_MS,
        offsets_check_interval_ms=configs.number("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=number_for_group(SESSION_TIMEOUT, own, configs),
        consumer_heartbeat_interval_ms=number_for_group(HEARTBEAT_INTERVAL, own, configs),
        consumer_assignment_interval_ms=number_for_group(ASSIGNMENT_INTERVAL, own, configs),
        consumer_members_max=configs.number("group.consumer.max.size"),
        consumer_assignors=configs.texts("group.consumer.assignors"),
        consumer_migration_policy=str(configs.value("group.consumer.migration.policy")).lower(),
    )
