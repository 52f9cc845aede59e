"""DescribePositions, version 0, ours: other SPUs ask how far the groups that they coordinate are behind.

Only the leader answers: NOT_LEADER_OR_FOLLOWER from others, OFFSET_NOT_AVAILABLE while what the leader before left is
not committed.
"""

from typing import TYPE_CHECKING

from tailrace.broker.descriptions.consumer_positions import describe_positions
from tailrace.protocol.internal.describe_positions import DescribePositionsRequest, DescribePositionsResponse
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(spu: "Spu", context: RequestContext, request: DescribePositionsRequest) -> DescribePositionsResponse:
    return await describe_positions(spu.replicas, request)
