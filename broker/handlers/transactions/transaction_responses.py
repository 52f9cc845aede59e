"""What the handlers of transactions have in common: the client that asked, and the size of a request."""

from tailrace.broker.transactions.common.client_of_transactions import Client
from tailrace.server.request_context import RequestContext

REQUEST_BYTES = 500
"""About how much memory a request takes while it waits for the loading of its coordinator."""


def client_of(context: RequestContext) -> Client:
    """Returns who sent a request. The address is written as Kafka writes it, behind a slash."""
    host = context.client.address.rpartition(":")[0].strip("[]")
    return Client(context.client.connection, context.client_id or "", f"/{host}")
