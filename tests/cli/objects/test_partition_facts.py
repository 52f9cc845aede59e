from uuid import UUID

from msgspec.structs import replace

from tailrace.cli.objects.partition_facts import is_lagging, liveness
from tailrace.cli.objects.partition_tables import description, partition_document
from tailrace.protocol.internal.describe_partitions import DescribedPartition, ReplicaDetail


def test_a_follower_that_seems_ahead_lacks_nothing() -> None:
    partition = DescribedPartition("a", UUID(int=5), 0, "Online", 1, 0, [1, 2], [1, 2], "", [])
    partition.details = [ReplicaDetail(1, 0, 5, 5, 1), ReplicaDetail(2, 0, 6, 5, 1)]
    assert " 0  1 bytes" in description(partition).splitlines()[-1]
    assert not is_lagging(partition)
    assert is_lagging(replace(partition, live_replicas=[1]))
    unheard = ReplicaDetail(2, error_message="SPU 2 did not answer within 2 s")
    assert is_lagging(replace(partition, details=[partition.details[0], unheard])), "it may be"
    assert partition_document(partition)["details"][1]["lag"] == 0  # type: ignore[index]


def test_a_live_replica_that_is_offline_is_electable() -> None:
    partition = DescribedPartition("a", UUID(int=5), 0, "Online", 1, 0, [1, 2, 3], [1], "", [], electable=[2])
    assert [liveness(partition, spu) for spu in (1, 2, 3)] == ["yes", "electable", "no"]
    assert is_lagging(partition)
