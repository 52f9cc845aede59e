"""The guards of most APIs: every row that uses them can answer a refusal, in every version."""

import pytest
from hosts import request_of

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import API_TABLE, Api
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, SPU_OBJECT_APIS
from tailrace.security.acls.authorizer import Authorizer
from tailrace.server.authorization.authorization import Authorization
from tailrace.server.authorization.authorization_table import TABLE

APIS = {**API_TABLE, **SC_OBJECT_APIS, **SPU_OBJECT_APIS}
WHOLE = sorted(key for key in APIS if TABLE[key].guard == "common_guards:whole")


def _versions(api: Api) -> range:
    return range(api.min_version, api.max_version + 1)


@pytest.mark.parametrize("key", WHOLE)
def test_a_request_that_is_refused_as_a_whole_gets_a_response_that_can_be_encoded(key: int) -> None:
    cluster = Cluster()
    authorization = Authorization(Authorizer(cluster.security), cluster, lambda: True)

    def handle(context: object, request: object) -> object:
        raise AssertionError("the request is refused")

    for version in _versions(APIS[key]):
        response = authorization.guarded(key, handle)(request_of(APIS[key].key, version), APIS[key].request())
        assert isinstance(response, APIS[key].response)
        encode_whole(response, version)
