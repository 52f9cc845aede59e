"""DescribeAcls, where there are no permissions."""

import pytest
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_who_asks_is_told_that_nobody_authorizes_here(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        request = DescribeAclsRequest(1, None, 1, None, None)
        response = await client.request(ApiKey.DESCRIBE_ACLS, version, request)
        assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])
