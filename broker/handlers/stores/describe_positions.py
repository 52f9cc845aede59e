"""DescribePositions, version 0, ours: other SPUs ask how far the groups that they coordinate are behind.

Only the leader answers: NOT_LEADER_OR_FOLLOWER from others, OFFSET_NOT_AVAILABLE while what the leader before left is
not committed.
"""

from tailrace.broker.descriptions.consumer_positions import describe_positions
from tailrace.protocol.internal.describe_positions import DescribePositionsRequest, DescribePositionsResponse
from tailrace.server.request_context import RequestContext

from .store_host import StoreHost


async def handle(
    host: StoreHost, context: RequestContext, request: DescribePositionsRequest
) -> DescribePositionsResponse:
    return await describe_positions(host.replicas, request)
