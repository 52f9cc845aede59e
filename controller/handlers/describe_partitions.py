"""DescribePartitions, version 0: the partitions of the topics named, or of all, with what SPUs say of their logs."""

from tailrace.controller.handlers import ObjectHost
from tailrace.controller.partition_descriptions import PartitionDescriptions
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.describe_partitions import DescribePartitionsRequest, DescribePartitionsResponse
from tailrace.server.request_context import RequestContext


async def handle(
    host: ObjectHost, context: RequestContext, request: DescribePartitionsRequest
) -> DescribePartitionsResponse:
    try:
        described = await PartitionDescriptions(host.local, host.ask_spu).describe(request.topics, request.epochs_max)
    except KafkaError as error:
        return DescribePartitionsResponse(error_code=error.code, error_message=error.message)
    return DescribePartitionsResponse(partitions=described)
