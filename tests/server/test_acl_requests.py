"""The APIs of ACLs respond that there is no authorizer."""

import pytest
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_describe_acls_says_that_there_is_no_authorizer(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        request = DescribeAclsRequest(1, None, 1, None, None)
        response = await client.request(ApiKey.DESCRIBE_ACLS, version, request)
        assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_create_acls_refuses_each_acl(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        wanted = AclCreation(2, "t", principal="User:a", host="*", operation=2, permission_type=3)
        response = await client.request(ApiKey.CREATE_ACLS, version, CreateAclsRequest([wanted, wanted]))
        assert [each.error_code for each in response.results] == [ErrorCode.SECURITY_DISABLED] * 2


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_delete_acls_finds_no_acl_for_any_filter(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        wanted = DeleteAclsFilter(2, "t", operation=1, permission_type=1)
        response = await client.request(ApiKey.DELETE_ACLS, version, DeleteAclsRequest([wanted, wanted]))
        found = [(each.error_code, each.matching_acls) for each in response.filter_results]
        assert found == [(ErrorCode.SECURITY_DISABLED, [])] * 2
