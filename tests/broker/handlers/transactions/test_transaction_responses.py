"""The client of a request, as coordinators of transactions know it."""

from hosts import request_of

from tailrace.broker.handlers.transactions.transaction_responses import client_of
from tailrace.protocol.apis import ApiKey
from tailrace.server.request_context import ClientIdentity


def test_a_client_has_the_number_of_its_connection_and_its_host() -> None:
    context = request_of(ApiKey.END_TXN)
    context.client = ClientIdentity("[2001:db8::1]:5", connection=7)
    assert client_of(context) == (7, "me", "/2001:db8::1")
