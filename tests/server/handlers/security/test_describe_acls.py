"""DescribeAcls."""

import pytest
from authorized_spu import ANONYMOUS, authorized_spu, rule

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_acls import AclDescription, DescribeAclsRequest
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_rules_are_described_by_resource(autojump_clock: object, version: int) -> None:
    async with authorized_spu(super_users=ANONYMOUS) as authorized:
        authorized.allow(
            rule(Res.TOPIC, Op.READ, "orders", who="User:a"),
            rule(Res.TOPIC, Op.WRITE, "orders", who="User:b"),
            rule(Res.GROUP, Op.READ, "readers", who="User:a"),
        )
        request = DescribeAclsRequest(Res.ANY, None, 1, None, None, Op.ANY, 1)
        response = await authorized.request(ApiKey.DESCRIBE_ACLS, request, version)
        assert response.error_code == ErrorCode.NONE
        assert [(each.resource_type, each.resource_name, each.pattern_type) for each in response.resources] == [
            (Res.TOPIC, "orders", 3),
            (Res.GROUP, "readers", 3),
        ]
        assert response.resources[1].acls == [AclDescription("User:a", "*", Op.READ, 3)]
        assert len(response.resources[0].acls) == 2
        of_b = DescribeAclsRequest(Res.TOPIC, None, 1, "User:b", None, Op.ANY, 1)
        (only,) = (await authorized.request(ApiKey.DESCRIBE_ACLS, of_b, version)).resources
        assert only.acls == [AclDescription("User:b", "*", Op.WRITE, 3)]
        wrong = DescribeAclsRequest(Res.TOPIC, None, 1, None, None, 77, 1)
        assert (await authorized.request(ApiKey.DESCRIBE_ACLS, wrong, version)).error_code == ErrorCode.INVALID_REQUEST
