"""IncrementalAlterConfigs: from the wire to the replica, with errors for each resource."""

import pytest
import trio.testing
from simulation.client import WireClient
from spus import running_spu

from tailrace.broker.groups.hosting.group_settings_cache import GroupSettingsCache
from tailrace.cluster.configs.config_changes import Operation
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = Operation


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*change) for change in changes])


async def alter(
    client: WireClient, *resources: AlterConfigsResource, version: int = 1, validate_only: bool = False
) -> list[tuple[int, str, int, bool]]:
    """Returns the resource, the error code, and whether there is a message, of each result."""
    request = IncrementalAlterConfigsRequest(list(resources), validate_only)
    responses = (await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)).responses
    return [(each.resource_type, each.resource_name, each.error_code, bool(each.error_message)) for each in responses]


@pytest.mark.parametrize("version", range(2))
async def test_a_change_is_live_in_the_running_replica(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        replica = running.replica("t")
        changes = [("cleanup.policy", APPEND, "compact"), ("max.message.bytes", SET, "1000")]
        assert await alter(client, resource(TOPIC, "t", *changes), version=version) == [(TOPIC, "t", 0, False)]
        assert (replica.settings.log.deletes, replica.settings.log.compacts) == (True, True)
        assert replica.settings.produce.batch_bytes_max == 1000
        changes = [("cleanup.policy", SUBTRACT, "delete"), ("max.message.bytes", DELETE, None)]
        await alter(client, resource(TOPIC, "t", *changes), version=version)
        assert (replica.settings.log.deletes, replica.settings.log.compacts) == (False, True)
        assert replica.settings.produce.batch_bytes_max == 1048588


@pytest.mark.parametrize(
    ("name", "least"), [("max.connections", 1), ("max.connections.per.ip", 1), ("socket.request.max.bytes", 16_384)]
)
async def test_a_very_restrictive_config_can_be_reverted(autojump_clock: object, name: str, least: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        below, allowed = (resource(BROKER, "", (name, SET, str(value))) for value in (least - 1, least))
        assert await alter(client, below) == [(BROKER, "", ErrorCode.INVALID_REQUEST, True)]
        assert await alter(client, allowed) == [(BROKER, "", 0, False)]
        client.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        assert await alter(await running.client(), resource(BROKER, "", (name, DELETE, None))) == [
            (BROKER, "", 0, False)
        ]


async def test_a_change_for_all_spus_is_live_too(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        client = await running.client()
        await alter(
            client, resource(BROKER, "", ("log.flush.interval.messages", SET, "1"), ("num.partitions", SET, "3"))
        )
        assert replica.syncs_before_acknowledging
        assert running.spu.broker_configs.settings.partitions_default == 3


async def test_a_groups_configs_have_effect_before_the_response(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        name = "consumer.session.timeout.ms"
        settings = GroupSettingsCache(running.spu.broker_configs, running.spu.cluster)
        assert await alter(client, resource(GROUP, "g", (name, SET, "50000"))) == [(GROUP, "g", 0, False)]
        assert [settings.of(group).consumer_session_timeout_ms for group in ("g", "h")] == [50_000, 45_000]
        assert await alter(client, resource(GROUP, "g", (name, SET, "7"))) == [
            (GROUP, "g", ErrorCode.INVALID_CONFIG, True)
        ]
        assert await alter(client, resource(GROUP, "g", (name, DELETE, None))) == [(GROUP, "g", 0, False)]
        assert settings.of("g").consumer_session_timeout_ms == 45_000


async def test_every_resource_has_a_result_of_its_own(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        answers = await alter(
            await running.client(),
            resource(TOPIC, "nope", ("retention.ms", SET, "5")),
            resource(TOPIC, "t", ("retention.ms", SET, "5")),
            resource(BROKER, "9", ("log.retention.ms", SET, "5")),
            resource(BROKER, "1", ("log.retention.ms", SET, "x")),
            resource(99, "t", ("retention.ms", SET, "5")),
        )
        assert answers == [
            (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
            (TOPIC, "t", 0, False),
            (BROKER, "9", ErrorCode.INVALID_REQUEST, True),
            (BROKER, "1", ErrorCode.INVALID_REQUEST, True),
            (99, "t", ErrorCode.INVALID_REQUEST, True),
        ]
        assert running.spu.cluster.topics["t"].configs == {"retention.ms": "5"}


async def test_a_change_that_is_only_validated(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        good, bad = resource(TOPIC, "t", ("retention.ms", SET, "5")), resource(BROKER, "", ("num.partitions", SET, "x"))
        answers = await alter(await running.client(), good, bad, validate_only=True)
        assert [code for _, _, code, _ in answers] == [0, ErrorCode.INVALID_REQUEST]
        assert running.spu.cluster.topics["t"].configs == {}


async def test_an_operation_that_kafka_does_not_know(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        answers = await alter(await running.client(), resource(TOPIC, "t", ("retention.ms", 9, "5")))
        assert answers == [(TOPIC, "t", ErrorCode.INVALID_REQUEST, True)]
