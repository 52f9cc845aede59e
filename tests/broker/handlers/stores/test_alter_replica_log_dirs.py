"""AlterReplicaLogDirs: there is one directory, and everything is in it."""

import pytest
from spus import RunningSpu, running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)


async def errors(
    running: RunningSpu, *dirs: tuple[str, str, list[int]], version: int = 2
) -> dict[tuple[str, int], int]:
    wanted = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, numbers)]) for path, topic, numbers in dirs]
    client = await running.client()
    response = await client.request(ApiKey.ALTER_REPLICA_LOG_DIRS, version, AlterReplicaLogDirsRequest(wanted))
    topics = [topic.topic_name for topic in response.results]
    assert len(topics) == len(set(topics))
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in response.results
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_a_replica_may_stay_where_it_is(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        here = running.spu.data_directory
        assert await errors(running, (here, "t", [0, 1]), version=version) == {("t", 0): 0, ("t", 1): 0}


async def test_there_is_no_other_directory(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        here = running.spu.data_directory
        found = await errors(running, (here, "t", [0]), ("/nowhere", "t", [1]), ("", "unknown", [0]))
        missing = ErrorCode.LOG_DIR_NOT_FOUND
        assert found == {("t", 0): 0, ("t", 1): missing, ("unknown", 0): missing}


async def test_a_replica_on_another_spu_cannot_be_moved(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        (replica,) = [each for each in running.spu.replicas if each.partition == 1]
        running.spu.replicas.remove(replica.spec)
        here = running.spu.data_directory
        assert await errors(running, (here, "t", [0, 1, 2]), (here, "unknown", [0])) == {
            ("t", 0): 0,
            ("t", 1): ErrorCode.REPLICA_NOT_AVAILABLE,
            ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
