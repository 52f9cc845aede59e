"""AlterReplicaLogDirs, versions 1–2: an SPU has one directory, so every replica lies where it can be asked to lie.

- Asking for that directory changes nothing, and is well; any other is LOG_DIR_NOT_FOUND, whatever should go there.
- A replica that is on other SPUs is REPLICA_NOT_AVAILABLE here, where most APIs say NOT_LEADER_OR_FOLLOWER; so it is in
  Kafka.
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
