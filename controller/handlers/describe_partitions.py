"""DescribePartitions, version 0: describes partitions and the logs of their replicas."""

from tailrace.controller.handlers import ObjectHost
from tailrace.controller.inspection.partition_descriptions import PartitionDescriptions
from tailrace.controller.state.local_store import PartitionKey
from tailrace.controller.state.status_changes import StatusChanges
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.describe_partitions import (
    DescribePartitionsRequest,
    DescribePartitionsResponse,
    StatusChange,
)
from tailrace.server.request_context import RequestContext

NONE_WANTED = -1


async def handle(
    host: ObjectHost, context: RequestContext, request: DescribePartitionsRequest
) -> DescribePartitionsResponse:
    changes, last_change_us = _changes(host.status_changes, request.changes_after_us), host.status_changes.last_us
    try:
        described = await PartitionDescriptions(host.local, host.ask_spu).describe(request.topics, request.epochs_max)
    except KafkaError as error:
        return DescribePartitionsResponse(error_code=error.code, error_message=error.message)
    for partition in described:
        partition.status_changes = changes.get((partition.topic_id, partition.partition), [])
    return DescribePartitionsResponse(partitions=described, last_change_us=last_change_us)


def _changes(changes: StatusChanges, after_us: int) -> dict[PartitionKey, list[StatusChange]]:
    """Returns the status changes of each partition after a time.

    Call this before SPUs are asked: the changes must not be newer than the statuses that are described.
    """
    by_partition: dict[PartitionKey, list[StatusChange]] = {}
    for each in changes.after(after_us) if after_us != NONE_WANTED else ():
        change = StatusChange(each.time_us, each.resolution.value, each.leader, each.epoch, each.reason)
        by_partition.setdefault(each.key, []).append(change)
    return by_partition
