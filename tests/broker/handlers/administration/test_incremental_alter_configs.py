"""What the controller makes of it, tests/server/handlers/ shows; here it is away."""

import pytest
import trio
from abandoned_spus import client_of_abandoned_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest


async def test_without_a_controller_each_resource_times_out_after_half_a_minute(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        resources = [AlterConfigsResource(resource_type=2, resource_name=name) for name in ("t", "u")]
        started = trio.current_time()
        response = await client.request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=resources)
        )
        assert trio.current_time() - started == pytest.approx(30)
    assert [(each.resource_type, each.resource_name, each.error_code) for each in response.responses] == [
        (2, "t", ErrorCode.REQUEST_TIMED_OUT),
        (2, "u", ErrorCode.REQUEST_TIMED_OUT),
    ]
