"""DescribePositions, version 0, not in Kafka: other SPUs ask for the lag of the groups that they coordinate.

Only the leader responds. Other replicas say NOT_LEADER_OR_FOLLOWER. A new leader says OFFSET_NOT_AVAILABLE until the
records of the earlier leader are committed.
"""

from tailrace.broker.descriptions.consumer_positions import describe_positions
from tailrace.protocol.internal.describe_positions import DescribePositionsRequest, DescribePositionsResponse
from tailrace.server.request_context import RequestContext

from .store_host import StoreHost


async def handle(
    host: StoreHost, context: RequestContext, request: DescribePositionsRequest
) -> DescribePositionsResponse:
    return await describe_positions(host.replicas, request)
