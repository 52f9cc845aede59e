"""CreateAcls, where there are no permissions."""

import pytest
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_each_is_refused_because_nobody_would_look_at_it(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        wanted = AclCreation(2, "t", principal="User:a", host="*", operation=2, permission_type=3)
        response = await client.request(ApiKey.CREATE_ACLS, version, CreateAclsRequest([wanted, wanted]))
        assert [each.error_code for each in response.results] == [ErrorCode.SECURITY_DISABLED] * 2
