"""DescribeLogDirs, versions 1–5: how many bytes each replica on this SPU takes, and how full its volume is.

- An SPU has one directory. Replicas do not move between directories: none is a future replica, and the lag, which Kafka
  counts for such moves, is 0.
- A replica that does not exist, or that this SPU does not have, is left out, as in Kafka. No directory is ever cordoned
  (v5).
"""

from collections.abc import Iterable

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tailrace.server.request_context import RequestContext

from .store_host import VolumeHost


def handle(host: VolumeHost, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    result = DescribeLogDirsResult(log_dir=host.data_directory)
    try:
        result.total_bytes, result.usable_bytes = host.files.free_bytes(host.data_directory)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return DescribeLogDirsResponse(results=[result])
    topics: dict[str, DescribeLogDirsTopic] = {}
    for replica in _asked(host, request):
        topic = topics.setdefault(replica.topic, DescribeLogDirsTopic(name=replica.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=replica.partition, partition_size=replica.log.size_bytes)
        )
    result.topics = list(topics.values())
    return DescribeLogDirsResponse(results=[result])


def _asked(host: VolumeHost, request: DescribeLogDirsRequest) -> Iterable[Replica]:
    if request.topics is None:
        return host.replicas
    keys = dict.fromkeys((topic.topic, partition) for topic in request.topics for partition in topic.partitions)
    found = (host.replicas.find(topic, partition) for topic, partition in keys)
    return (replica for replica in found if replica is not None)
