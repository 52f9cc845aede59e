"""Tests that the settings of groups follow the configs, and are cached while these stay."""

from msgspec.structs import fields

from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.groups.hosting.group_settings_cache import GroupSettingsCache
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs


def test_defaults_are_the_same_in_both_places() -> None:
    assert GroupSettingsCache(BrokerConfigs({}), Cluster()).of("g") == GroupSettings()


def test_every_setting_follows_its_config() -> None:
    configs = {
        "group.max.size": "1",
        "group.min.session.timeout.ms": "2",
        "group.max.session.timeout.ms": "3",
        "group.initial.rebalance.delay.ms": "4",
        "offset.metadata.max.bytes": "5",
        "offsets.retention.minutes": "6",
        "offsets.retention.check.interval.ms": "11",
        "group.consumer.session.timeout.ms": "45007",
        "group.consumer.heartbeat.interval.ms": "5008",
        "group.consumer.assignment.interval.ms": "10",
        "group.consumer.max.size": "9",
        "group.consumer.assignors": "range",
        "group.consumer.migration.policy": "UPGRADE",
    }
    settings = GroupSettingsCache(BrokerConfigs(configs), Cluster()).of("g")
    assert not {each.name for each in fields(settings) if getattr(settings, each.name) == each.default}
    assert settings == GroupSettings(
        members_max=1,
        session_timeout_ms_min=2,
        session_timeout_ms_max=3,
        initial_rebalance_delay_ms=4,
        offset_metadata_bytes_max=5,
        offsets_retention_ms=360_000,
        offsets_check_interval_ms=11,
        consumer_session_timeout_ms=45_007,
        consumer_heartbeat_interval_ms=5_008,
        consumer_assignment_interval_ms=10,
        consumer_members_max=9,
        consumer_assignors=("range",),
        consumer_migration_policy="upgrade",
    )


def test_a_group_has_its_own_settings_while_it_sets_some() -> None:
    cluster = Cluster()
    settings = GroupSettingsCache(BrokerConfigs({}), cluster)
    for milliseconds in (50_000, 51_000):
        cluster.put_group_configs("g", {"consumer.session.timeout.ms": str(milliseconds)})
        assert settings.of("g").consumer_session_timeout_ms == milliseconds
        assert settings.of("h") == GroupSettings()
    cluster.put_group_configs("g", {})
    assert settings.of("g") == GroupSettings()


def test_they_are_made_once_while_nothing_changes() -> None:
    cluster, configs = Cluster(), BrokerConfigs({})
    settings = GroupSettingsCache(configs, cluster)
    cluster.put_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    common, own = settings.of("h"), settings.of("g")
    assert settings.of("h") is common
    assert settings.of("i") is common
    assert settings.of("g") is own
    configs.use_dynamic({}, {})
    assert settings.of("h") is not common
    assert settings.of("g") is not own


def test_what_a_later_version_stored_does_not_stop_a_group() -> None:
    cluster = Cluster()
    cluster.put_group_configs("g", {"consumer.session.timeout.ms": "soon"})
    assert GroupSettingsCache(BrokerConfigs({}), cluster).of("g") == GroupSettings()
