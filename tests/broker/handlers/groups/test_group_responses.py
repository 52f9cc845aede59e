"""What the handlers of groups have in common."""

import pytest
from hosts import request_of

from tailrace.broker.handlers.groups.group_responses import caller_of
from tailrace.protocol.apis import ApiKey
from tailrace.server.request_context import ClientIdentity


@pytest.mark.parametrize(
    ("address", "host"),
    [("192.0.2.1:5", "/192.0.2.1"), ("[2001:db8::1]:5", "/2001:db8::1"), ("client-3:7", "/client-3")],
)
def test_callers_are_identified_by_client_id_and_host(address: str, host: str) -> None:
    context = request_of(ApiKey.LIST_GROUPS)
    context.client = ClientIdentity(address)
    assert caller_of(context) == ("me", host, None)
