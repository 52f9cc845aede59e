"""ReadStore, version 0, ours: who reads from a quorum of stores asks what this one has, whether it leads or not.

Unlike a fetch it is told what is not committed, also by followers, and while nobody leads.
"""

from typing import TYPE_CHECKING

from tailrace.broker.copies.store_reading import read_store
from tailrace.protocol.internal.read_store import ReadStoreRequest, ReadStoreResponse
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


def handle(spu: "Spu", context: RequestContext, request: ReadStoreRequest) -> ReadStoreResponse:
    return read_store(spu.replicas, request)
