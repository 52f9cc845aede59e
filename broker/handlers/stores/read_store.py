"""ReadStore, version 0, not in Kafka: a quorum reader asks what this store has, whether this SPU leads or not.

Unlike a fetch, it also returns what is not committed, from followers, and while the partition has no leader.
"""

from tailrace.broker.copies.store_reading import read_from_store
from tailrace.protocol.internal.read_store import ReadStoreRequest, ReadStoreResponse
from tailrace.server.request_context import RequestContext

from .store_host import StoreHost


def handle(host: StoreHost, context: RequestContext, request: ReadStoreRequest) -> ReadStoreResponse:
    return read_from_store(host.replicas, request)
