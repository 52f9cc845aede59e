"""DescribeCluster: the brokers, but no controllers."""

from typing import Any

import pytest
from spus import ADDRESS, running_spu

from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse


async def describe(version: int = 2, **asked: Any) -> DescribeClusterResponse:
    async with running_spu() as running:
        client = await running.client()
        request = DescribeClusterRequest(**asked)
        response: DescribeClusterResponse = await client.request(ApiKey.DESCRIBE_CLUSTER, version, request)
        return response


@pytest.mark.parametrize("version", range(3))
async def test_every_version_lists_the_spus(autojump_clock: object, version: int) -> None:
    response = await describe(version)
    assert (response.error_code, response.endpoint_type, response.controller_id) == (0, 1, 1)
    assert len(response.cluster_id) == 22
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, ADDRESS.host, ADDRESS.port)
    assert (broker.rack, broker.is_fenced) == (None, False)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("are_asked_for", [True, False])
async def test_an_offline_spu_is_listed_as_fenced_if_requested(
    autojump_clock: object, version: int, are_asked_for: bool
) -> None:
    async with running_spu() as running:
        endpoint = Endpoint("PUBLIC", "two", 9005)
        running.spu.cluster.put_spu(SpuSpec(SpuId(2), "r2", (endpoint,), online=False))
        client = await running.client()
        request = DescribeClusterRequest(include_fenced_brokers=are_asked_for and version >= 2)
        response = await client.request(ApiKey.DESCRIBE_CLUSTER, version, request)
        this, *away = response.brokers
        assert (this.broker_id, this.is_fenced) == (1, False)
        described = [(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in away]
        assert described == ([(2, "two", 9005, "r2", True)] if are_asked_for and version >= 2 else [])


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_no_controllers_are_listed(autojump_clock: object, endpoint: int, code: ErrorCode) -> None:
    response = await describe(endpoint_type=endpoint)
    assert (response.error_code, response.brokers, response.controller_id) == (code, [], -1)
    assert response.error_message


@pytest.mark.parametrize(("asked", "operations"), [(True, 8096), (False, -(2**31))])
async def test_operations_are_listed_only_when_requested(autojump_clock: object, asked: bool, operations: int) -> None:
    response = await describe(include_cluster_authorized_operations=asked)
    assert response.cluster_authorized_operations == operations
