"""CreateAcls."""

import pytest
from authorized_spu import ANONYMOUS, authorized_spu, rule

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res

READ = AclCreation(Res.TOPIC, "topic", 3, "User:a", "10.0.0.0/8", Op.READ, 3)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_rules_are_stored_and_in_the_mirror_when_the_response_leaves(
    autojump_clock: object, version: int
) -> None:
    async with authorized_spu(super_users=ANONYMOUS) as authorized:
        wrong = AclCreation(Res.CLUSTER, "other", 3, "User:a", "*", Op.READ, 3)
        no_range = AclCreation(Res.TOPIC, "topic", 3, "User:a", "10.0.0.1/8", Op.READ, 3)
        request = CreateAclsRequest([READ, wrong, READ, no_range])
        response = await authorized.request(ApiKey.CREATE_ACLS, request, version)
        codes = [each.error_code for each in response.results]
        assert codes == [0, ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
        assert response.results[0].error_message is None
        assert "kafka-cluster" in response.results[1].error_message
        expected = rule(Res.TOPIC, Op.READ, who="User:a", host="10.0.0.0/8")
        assert list(authorized.spu.cluster.security.acls.values()) == [expected]
        again = await authorized.request(ApiKey.CREATE_ACLS, CreateAclsRequest([READ]), version)
        assert [each.error_code for each in again.results] == [0]
        assert list(authorized.spu.cluster.security.acls.values()) == [expected]
