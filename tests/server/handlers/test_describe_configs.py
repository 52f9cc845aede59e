"""DescribeConfigs: every config, its explanation, and where its value comes from."""

from typing import Any

import pytest
from hosts import ControllerHost, request_of
from simulation.client import WireClient
from spus import RunningSpu, running_spu

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.config_changes import Operation
from tailrace.cluster.configs.config_definitions import ConfigDefinition, ConfigSource, ConfigType, Value
from tailrace.cluster.configs.group_config_table import GROUP_CONFIGS
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.cluster.configs.topic_configs import effective_value
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tailrace.server.handlers import describe_configs

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


async def describe(
    client: WireClient, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4, **more: Any
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], **more)
    (result,) = (await client.request(ApiKey.DESCRIBE_CONFIGS, version, request)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    found: DescribeConfigsResult = result
    return found


def by_name(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert result.error_code == 0, result.error_message
    return {config.name: config for config in result.configs}


async def set_for_all(running: RunningSpu, name: str, value: str) -> None:
    change = AlterableConfig(name=name, config_operation=Operation.SET, value=value)
    request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(BROKER, "", [change])])
    response = await (await running.client()).request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert response.responses[0].error_code == 0, response


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_lists_every_config_of_a_topic(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"retention.ms": "5"})
        configs = by_name(await describe(await running.client(), TOPIC, "t", version=version))
        assert set(configs) == {name for name, definition in TOPIC_CONFIGS.items() if not definition.hidden}
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", ConfigSource.TOPIC)
        assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", ConfigSource.DEFAULT)


async def test_topics_with_the_same_configs_are_looked_up_once(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    def effective(definition: ConfigDefinition, *more: Any) -> tuple[Value, ConfigSource]:
        looked_up.append(definition.name)
        return effective_value(definition, *more)

    monkeypatch.setattr(describe_configs, "effective_value", effective)
    async with running_spu() as running:
        configs = {"a": {"retention.ms": "5"}, "b": {}, "c": {"retention.ms": "5"}, "d": {"retention.ms": "6"}}
        for name, own in configs.items():
            await running.create(name, configs=own)
        resources = [DescribeConfigsResource(TOPIC, name, ["retention.ms"]) for name in configs]
        client = await running.client()
        response = await client.request(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources))
        values = [config.value for result in response.results for config in result.configs]
        assert values == ["5", "604800000", "5", "6"]
    assert looked_up.count("retention.ms") == 3


async def test_a_resource_that_is_named_repeatedly_costs_nothing_more(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        looked_up: list[str] = []
        values = running.spu.broker_configs.values

        def noted(definition: ConfigDefinition) -> Any:
            looked_up.append(definition.name)
            return values(definition)

        monkeypatch.setattr(running.spu.broker_configs, "values", noted)
        resources = [DescribeConfigsResource(BROKER, "1", keys) for keys in (None, ["broker.id"], None, ["node.id"])]
        client = await running.client()
        response = await client.request(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources))
        every, *chosen = [[config.name for config in result.configs] for result in response.results]
        assert len(every) > 100
        assert chosen == [["broker.id"], ["node.id"]]
    assert looked_up.count("broker.id") == 1


async def test_every_config_has_a_type_and_when_asked_for_an_explanation(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        told = by_name(await describe(client, TOPIC, "t", include_documentation=True))
        for name, config in told.items():
            assert config.config_type == TOPIC_CONFIGS[name].type
            assert config.documentation
            assert config.read_only == (name == "replication.policy")
        assert "no effect in Tailrace yet" in (told["preallocate"].documentation or "")
        assert "no effect in Tailrace yet" not in (told["retention.ms"].documentation or "")
        silent = by_name(await describe(client, TOPIC, "t"))
        assert {config.documentation for config in silent.values()} == {None}
        assert not any(config.synonyms for config in silent.values())


async def test_synonyms_are_all_places_where_a_value_is_set(autojump_clock: object) -> None:
    async with running_spu(broker={"log.retention.hours": "2"}) as running:
        await running.create("t", configs={"retention.ms": "5"})
        await running.create("u")
        await set_for_all(running, "log.retention.ms", "6")
        client = await running.client()
        own = by_name(await describe(client, TOPIC, "t", ["retention.ms"], include_synonyms=True))["retention.ms"]
        assert [(each.name, each.value, each.source) for each in own.synonyms] == [
            ("retention.ms", "5", ConfigSource.TOPIC),
            ("log.retention.ms", "6", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            ("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
            ("log.retention.hours", "168", ConfigSource.DEFAULT),
        ]
        other = by_name(await describe(client, TOPIC, "u", ["retention.ms"]))["retention.ms"]
        assert (other.value, other.config_source) == ("6", ConfigSource.DYNAMIC_DEFAULT_BROKER)


@pytest.mark.parametrize(("keys", "expected"), [(["retention.ms", "nope"], 1), (["nope"], 0), ([], None), (None, None)])
async def test_keys_select_configs_and_no_keys_select_all(
    autojump_clock: object, keys: list[str] | None, expected: int | None
) -> None:
    async with running_spu() as running:
        await running.create("t")
        configs = by_name(await describe(await running.client(), TOPIC, "t", keys))
        assert len(configs) == (len(TOPIC_CONFIGS) - 1 if expected is None else expected)


async def test_every_config_of_the_spu_is_described(autojump_clock: object) -> None:
    async with running_spu(broker={"num.partitions": "7"}) as running:
        configs = by_name(await describe(await running.client(), BROKER, "1", include_synonyms=True))
        assert set(configs) == set(BROKER_CONFIGS)
        assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == (
            "7",
            ConfigSource.STATIC_BROKER,
        )
        assert (configs["broker.id"].value, configs["broker.id"].read_only) == ("1", True)
        assert configs["log.dirs"].value == running.spu.data_directory
        assert (configs["log.retention.ms"].value, configs["log.retention.ms"].synonyms) == (None, [])
        assert configs["log.retention.ms"].config_type == ConfigType.LONG


async def test_configs_of_all_spus_are_listed_under_an_empty_name(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        assert by_name(await describe(client, BROKER, "")) == {}
        await set_for_all(running, "log.retention.ms", "6")
        configs = by_name(await describe(client, BROKER, ""))
        assert [(config.name, config.value, config.config_source) for config in configs.values()] == [
            ("log.retention.ms", "6", ConfigSource.DYNAMIC_DEFAULT_BROKER)
        ]


async def test_every_config_of_a_group_is_described_whether_the_group_exists_or_not(autojump_clock: object) -> None:
    async with running_spu(broker={"group.consumer.heartbeat.interval.ms": "6000"}) as running:
        running.spu.cluster.put_group_configs("g", {"consumer.session.timeout.ms": "50000"})
        told = by_name(await describe(await running.client(), GROUP, "g", include_synonyms=True))
        assert set(told) == set(GROUP_CONFIGS)
        assert not any(config.read_only for config in told.values())
        assert told["consumer.session.timeout.ms"].config_source == ConfigSource.GROUP
        assert [(each.name, each.value, each.source) for each in told["consumer.session.timeout.ms"].synonyms] == [
            ("consumer.session.timeout.ms", "50000", ConfigSource.GROUP),
            ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT),
        ]
        other = by_name(await describe(await running.client(), GROUP, "h"))
        assert {name: (config.value, config.config_source) for name, config in other.items()} == {
            "consumer.session.timeout.ms": ("45000", ConfigSource.DEFAULT),
            "consumer.heartbeat.interval.ms": ("6000", ConfigSource.STATIC_BROKER),
            "consumer.assignment.interval.ms": ("1000", ConfigSource.DEFAULT),
        }


async def test_an_spu_has_no_loggers_to_list(autojump_clock: object) -> None:
    async with running_spu() as running:
        assert by_name(await describe(await running.client(), LOGGER, "1")) == {}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "9", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "x", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_resource_that_does_not_exist(autojump_clock: object, kind: int, name: str, code: ErrorCode) -> None:
    async with running_spu() as running:
        result = await describe(await running.client(), kind, name)
        assert result.error_code == code
        assert result.error_message
        assert result.configs == []


@pytest.mark.parametrize("name", ["1", "-1"])
def test_a_host_that_is_no_spu_describes_the_configs_of_all_spus_but_of_no_single_one(name: str) -> None:
    host = ControllerHost()
    host.broker_configs.use_dynamic(own={}, default={"log.retention.ms": "5"})
    resources = [DescribeConfigsResource(BROKER, name, None), DescribeConfigsResource(BROKER, "", None)]
    request = DescribeConfigsRequest(resources)
    one, all_spus = describe_configs.handle(host, request_of(ApiKey.DESCRIBE_CONFIGS), request).results
    assert one.error_code == ErrorCode.INVALID_REQUEST
    assert "Streaming Controller" in (one.error_message or "")
    assert [(each.name, each.value) for each in all_spus.configs] == [("log.retention.ms", "5")]
