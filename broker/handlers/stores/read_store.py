"""ReadStore, version 0, ours: who reads from a quorum of stores asks what this one has, whether it leads or not.

Unlike a fetch it is told what is not committed, also by followers, and while nobody leads.
"""

from tailrace.broker.copies.store_reading import read_store
from tailrace.protocol.internal.read_store import ReadStoreRequest, ReadStoreResponse
from tailrace.server.request_context import RequestContext

from .store_host import StoreHost


def handle(host: StoreHost, context: RequestContext, request: ReadStoreRequest) -> ReadStoreResponse:
    return read_store(host.replicas, request)
