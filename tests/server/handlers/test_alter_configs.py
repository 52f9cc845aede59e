"""AlterConfigs: a config that the request does not name loses its value."""

import pytest
from simulation.client import WireClient
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource

TOPIC, BROKER, LOGGER = 2, 4, 8


async def alter(
    client: WireClient, kind: int, name: str, version: int = 2, *, validate_only: bool = False, **configs: str | None
) -> int:
    given = [AlterableConfig(key.replace("_", "."), value) for key, value in configs.items()]
    request = AlterConfigsRequest([AlterConfigsResource(kind, name, given)], validate_only)
    (answer,) = (await client.request(ApiKey.ALTER_CONFIGS, version, request)).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    assert bool(answer.error_message) == bool(answer.error_code)
    code: int = answer.error_code
    return code


@pytest.mark.parametrize("version", range(3))
async def test_every_version_replaces_all_configs(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"retention.ms": "5", "segment.ms": "6"})
        client = await running.client()
        assert await alter(client, TOPIC, "t", version, segment_ms="7", flush_ms="8") == 0
        assert running.spu.cluster.topics["t"].configs == {"segment.ms": "7", "flush.ms": "8"}
        assert await alter(client, TOPIC, "t", version) == 0
        assert running.spu.cluster.topics["t"].configs == {}


async def test_configs_of_all_spus_are_replaced(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await alter(client, BROKER, "", log_retention_ms="5")
        assert await alter(client, BROKER, "", num_partitions="3") == 0
        assert running.spu.broker_configs.dynamic_default == {"num.partitions": "3"}


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code"),
    [
        (TOPIC, "t", {"segment_ms": "x"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"segment_ms": None}, ErrorCode.INVALID_REQUEST),
        (TOPIC, "nope", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", {"broker_id": "5"}, ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", {"root": "INFO"}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_configs_that_cannot_be_replaced_stay(
    autojump_clock: object, kind: int, name: str, configs: dict[str, str | None], code: ErrorCode
) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"retention.ms": "5"})
        assert await alter(await running.client(), kind, name, **configs) == code
        assert running.spu.cluster.topics["t"].configs == {"retention.ms": "5"}


async def test_a_replacement_that_is_only_validated(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"retention.ms": "5"})
        assert await alter(await running.client(), TOPIC, "t", validate_only=True, segment_ms="6") == 0
        assert running.spu.cluster.topics["t"].configs == {"retention.ms": "5"}
