"""DescribeSegments, version 0: describes a topic's segments and compares their copies."""

from tailrace.controller.handlers import ObjectHost
from tailrace.controller.inspection.segment_descriptions import SegmentDescriptions
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.describe_segments import DescribeSegmentsRequest, DescribeSegmentsResponse
from tailrace.server.request_context import RequestContext


async def handle(
    host: ObjectHost, context: RequestContext, request: DescribeSegmentsRequest
) -> DescribeSegmentsResponse:
    number = None if request.partition < 0 else request.partition
    try:
        descriptions = SegmentDescriptions(host.local, host.ask_spu)
        described = await descriptions.describe(request.topic, number, request.before)
    except KafkaError as error:
        return DescribeSegmentsResponse(error_code=error.code, error_message=error.message)
    return DescribeSegmentsResponse(partitions=described)
