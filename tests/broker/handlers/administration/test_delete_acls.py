"""DeleteAcls, where there are no permissions."""

import pytest
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_nothing_is_found_that_could_be_deleted(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        wanted = DeleteAclsFilter(2, "t", operation=1, permission_type=1)
        response = await client.request(ApiKey.DELETE_ACLS, version, DeleteAclsRequest([wanted, wanted]))
        found = [(each.error_code, each.matching_acls) for each in response.filter_results]
        assert found == [(ErrorCode.SECURITY_DISABLED, [])] * 2
