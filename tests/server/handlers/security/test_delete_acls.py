"""DeleteAcls."""

import pytest
from acl_creations import creation
from authorized_spu import ANONYMOUS, authorized_spu, rule

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_acls import CreateAclsRequest
from tailrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import PatternType, ResourceType

TOPIC, ANY, MATCH = ResourceType.TOPIC, PatternType.ANY, PatternType.MATCH


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_the_rules_that_filters_select_are_deleted_and_returned(autojump_clock: object, version: int) -> None:
    async with authorized_spu(super_users=ANONYMOUS) as authorized:
        kept = rule(TOPIC, Op.READ, "payments")
        doomed = [rule(TOPIC, Op.READ, "orders"), rule(TOPIC, Op.WRITE, "o", pattern=PatternType.PREFIXED)]
        request = CreateAclsRequest([creation(each) for each in (kept, *doomed)])
        await authorized.request(ApiKey.CREATE_ACLS, request)
        filters = [
            DeleteAclsFilter(TOPIC, "orders", MATCH, None, None, 1, 1),
            DeleteAclsFilter(TOPIC, "orders", ANY, None, None, 1, 1),
            DeleteAclsFilter(TOPIC, "orders", ANY, None, None, 99, 1),
        ]
        response = await authorized.request(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters), version)
        both, one, wrong = response.filter_results
        assert {each.resource_name for each in both.matching_acls} == {"orders", "o"}
        assert [(each.resource_name, each.operation, each.error_code) for each in one.matching_acls] == [
            ("orders", Op.READ, 0)
        ]
        assert wrong.error_code == ErrorCode.INVALID_REQUEST
        assert list(authorized.spu.cluster.security.acls.values()) == [kept]
