"""CreateTopics: topics that are created, refused, and only validated."""

from typing import Any

import pytest
from simulation.client import WireClient
from spus import running_spu

from tailrace.cluster.configs.config_definitions import ConfigDefinition, ConfigSource, Value
from tailrace.cluster.configs.topic_configs import effective_value
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tailrace.server.handlers import create_topics


def wanted(name: str = "t", partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    given = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, partitions, replicas, configs=given)


def by_hand(*assignments: tuple[int, list[int]], partitions: int = -1, replicas: int = -1) -> CreatableTopic:
    given = [CreatableReplicaAssignment(number, spus) for number, spus in assignments]
    return CreatableTopic("t", partitions, replicas, assignments=given)


async def create(
    client: WireClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    results: list[CreatableTopicResult] = (await client.request(ApiKey.CREATE_TOPICS, version, request)).topics
    return results


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates_the_valid_topics_and_explains_the_refusals(
    autojump_clock: object, version: int
) -> None:
    async with running_spu() as running:
        good, bad = await create(await running.client(), wanted("good", 3), wanted("b/d"), version=version)
        assert (good.name, good.error_code, good.error_message) == ("good", 0, None)
        assert (bad.name, bad.error_code) == ("b/d", ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert "b/d" in (bad.error_message or "")
        assert len(running.spu.cluster.topics["good"].partitions) == 3
        if version >= 5:
            assert (good.num_partitions, good.replication_factor) == (3, 1)
            assert (bad.num_partitions, bad.replication_factor) == (-1, -1)
        if version >= 7:
            assert good.topic_id == running.spu.cluster.topics["good"].id


async def test_the_response_lists_the_configs_that_apply(autojump_clock: object) -> None:
    async with running_spu(broker={"log.retention.hours": "1"}) as running:
        (topic,) = await create(await running.client(), wanted(segment_ms="5"))
        configs = {config.name: (config.value, config.config_source) for config in topic.configs or []}
        assert configs["segment.ms"] == ("5", 1)
        assert configs["retention.ms"] == ("3600000", 4)
        assert configs["max.message.bytes"] == ("1048588", 5)
        assert configs["replication.policy"] == ("live", 5)
        assert "internal.segment.bytes" not in configs


async def test_each_topic_of_a_request_has_its_own_configs(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    def effective(definition: ConfigDefinition, *more: Any) -> tuple[Value, ConfigSource]:
        looked_up.append(definition.name)
        return effective_value(definition, *more)

    monkeypatch.setattr(create_topics, "effective_value", effective)
    async with running_spu() as running:
        topics = [wanted("a", segment_ms="5"), wanted("b"), wanted("c", segment_ms="5"), wanted("d", segment_ms="6")]
        results = await create(await running.client(), *topics)
        values = [config.value for topic in results for config in topic.configs or [] if config.name == "segment.ms"]
        assert values == ["5", "604800000", "5", "6"]
    assert looked_up.count("segment.ms") == 3, "what the same configs come to is found out once"


async def test_minus_one_is_the_default(autojump_clock: object) -> None:
    async with running_spu(broker={"num.partitions": "4"}) as running:
        (topic,) = await create(await running.client(), wanted("t", -1, -1))
        assert (topic.error_code, topic.num_partitions, topic.replication_factor) == (0, 4, 1)


async def test_a_topic_that_is_only_validated_does_not_exist(autojump_clock: object) -> None:
    async with running_spu() as running:
        good, bad = await create(await running.client(), wanted(), wanted("u", 0), validate_only=True)
        assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_PARTITIONS)
        assert not running.spu.cluster.topics


async def test_replicas_may_be_placed_by_hand(autojump_clock: object) -> None:
    async with running_spu() as running:
        (topic,) = await create(await running.client(), by_hand((1, [1]), (0, [1])))
        assert (topic.error_code, topic.num_partitions) == (0, 2)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (wanted("the.re_"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (wanted(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (wanted(partitions=2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (wanted(replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted(retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (wanted(retention_ms=None), ErrorCode.INVALID_CONFIG),
        (wanted(no_such_config="1"), ErrorCode.INVALID_CONFIG),
        (by_hand((0, [1]), partitions=1), ErrorCode.INVALID_REQUEST),
        (by_hand((0, [1]), replicas=1), ErrorCode.INVALID_REQUEST),
        (by_hand((0, [1]), (0, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand((0, [1]), (2, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand((0, [9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand((0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand((0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_an_invalid_topic(autojump_clock: object, topic: CreatableTopic, code: ErrorCode) -> None:
    async with running_spu() as running:
        await running.create("there")
        await running.create("the_re.")
        (result,) = await create(await running.client(), topic)
        assert result.error_code == code
        assert result.error_message
        assert set(running.spu.cluster.topics) == {"there", "the_re."}


async def test_a_topic_that_is_named_twice_is_refused_once_and_the_others_are_created(autojump_clock: object) -> None:
    async with running_spu() as running:
        results = await create(await running.client(), wanted("t"), wanted("u"), wanted("t"))
        assert [(result.name, result.error_code) for result in results] == [("t", ErrorCode.INVALID_REQUEST), ("u", 0)]
        assert set(running.spu.cluster.topics) == {"u"}
