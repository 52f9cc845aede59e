"""DescribeClientQuotas; `tests/security/quotas/test_quota_filters.py` has the filters of Kafka's test."""

import pytest
from quota_samples import alter, quota
from simulation.client import WireClient
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

EXACT, DEFAULT, ANY = 0, 1, 2


async def describe(
    client: WireClient, *components: ComponentData, strict: bool = False, version: int = 1
) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(list(components), strict)
    response: DescribeClientQuotasResponse = await client.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, request)
    return response


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_found_by_their_entities(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        alice = quota({"request_percentage": 50.5, "producer_byte_rate": 10.0}, user="alice")
        everyone = quota({"request_percentage": 20.0}, user=None, client_id=None)
        address = quota({"connection_creation_rate": 10.0}, ip="1.2.3.4")
        assert await alter(client, alice, everyone, address) == [0, 0, 0]
        response = await describe(client, ComponentData("user", EXACT, "alice"), version=version)
        assert (response.error_code, response.error_message) == (0, None)
        assert response.entries is not None
        (entry,) = response.entries
        assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", "alice")]
        assert {each.key: each.value for each in entry.values} == alice.values
        for components, strict, count in (
            ([], False, 3),
            ([], True, 0),
            ([ComponentData("user", ANY, None)], False, 2),
            ([ComponentData("user", ANY, None)], True, 1),
            ([ComponentData("user", DEFAULT, None), ComponentData("client-id", DEFAULT, None)], True, 1),
            ([ComponentData("ip", ANY, None)], True, 1),
        ):
            found = await describe(client, *components, strict=strict, version=version)
            assert len(found.entries or ()) == count


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([ComponentData("other", EXACT, "name")], ErrorCode.UNSUPPORTED_VERSION),
        ([ComponentData("", EXACT, "name")], ErrorCode.INVALID_REQUEST),
        ([ComponentData("ip", ANY, None), ComponentData("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([ComponentData("ip", ANY, None), ComponentData("client-id", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([ComponentData("user", 7, None)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_wrong_filters_are_refused(autojump_clock: object, components: list[ComponentData], code: int) -> None:
    async with running_spu() as running:
        response = await describe(await running.client(), *components)
        assert (response.error_code, response.entries) == (code, None)
        assert response.error_message
