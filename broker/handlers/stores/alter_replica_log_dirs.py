"""AlterReplicaLogDirs, versions 1–2: an SPU has one data directory, so that no replica can move to another one.

- A request for that directory succeeds and changes nothing. Any other directory is LOG_DIR_NOT_FOUND.
- A replica that only other SPUs have is REPLICA_NOT_AVAILABLE, as in Kafka; most APIs say NOT_LEADER_OR_FOLLOWER.
"""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from tailrace.server.request_context import RequestContext

from .store_host import DirectoryHost


def handle(
    host: DirectoryHost, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for asked in directory.topics:
            topic = topics.setdefault(asked.name, AlterReplicaLogDirTopicResult(asked.name))
            topic.partitions += [
                AlterReplicaLogDirPartitionResult(partition, _error(host, directory.path, asked.name, partition))
                for partition in asked.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _error(host: DirectoryHost, path: str, topic: str, partition: int) -> int:
    if path != host.data_directory:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        host.replicas.reading(topic, partition)
    except KafkaError as error:
        is_elsewhere = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else error.code
    return ErrorCode.NONE
