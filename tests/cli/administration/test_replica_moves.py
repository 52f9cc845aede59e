from tailrace.cli.administration.replica_moves import is_moved
from tailrace.protocol.messages.metadata import MetadataResponsePartition


def partition(replicas: list[int], in_sync: list[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(replica_nodes=replicas, isr_nodes=in_sync)


def test_a_partition_is_moved_when_the_new_replicas_are_live_and_the_old_ones_gone() -> None:
    assert is_moved(partition([2, 1], [1, 2]), (1, 2))
    assert not is_moved(partition([1, 2], [1]), (1, 2)), "one is still copied"
    assert not is_moved(partition([1, 2, 3], [1, 2, 3]), (1, 2)), "one has not left yet"
