"""The three APIs of permissions, where there are none."""

import pytest
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest

TOPIC, ANY, ALLOW = 2, 1, 3


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_each_is_told_that_nobody_authorizes_here(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        described = await client.request(ApiKey.DESCRIBE_ACLS, version, DescribeAclsRequest(ANY, None, 1, None, None))
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        wanted = AclCreation(TOPIC, "t", principal="User:a", host="*", operation=ANY, permission_type=ALLOW)
        created = await client.request(ApiKey.CREATE_ACLS, version, CreateAclsRequest([wanted, wanted]))
        assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        filters = [DeleteAclsFilter(TOPIC, "t", operation=ANY, permission_type=ALLOW)]
        deleted = await client.request(ApiKey.DELETE_ACLS, version, DeleteAclsRequest(filters))
        assert [(each.error_code, each.matching_acls) for each in deleted.filter_results] == [
            (ErrorCode.SECURITY_DISABLED, [])
        ]
