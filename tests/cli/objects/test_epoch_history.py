import json
from uuid import UUID

from tailrace.cli.objects.epoch_history import EpochRow, epoch_documents, epoch_history, epoch_table, older_epochs
from tailrace.protocol.internal.describe_partitions import DescribedPartition, EpochStart, ReplicaDetail


def _replica(spu_id: int, start: int, end: int, *epochs: tuple[int, int], older: int = 0) -> ReplicaDetail:
    starts = [EpochStart(*each) for each in epochs]
    return ReplicaDetail(spu_id, start, end, end, 1, epochs=starts, older_epochs=older)


def _partition(leader: int, *details: ReplicaDetail) -> DescribedPartition:
    ids = [each.spu_id for each in details]
    return DescribedPartition("t", UUID(int=1), 0, "Online", leader, 3, ids, ids, "", list(details))


def test_replicas_that_agree_are_named_side_by_side() -> None:
    partition = _partition(2, _replica(1, 0, 8, (0, 0), (3, 5)), _replica(2, 0, 8, (0, 0), (3, 5)))
    assert epoch_history(partition) == [EpochRow(0, 0, 5, {1: 0, 2: 0}), EpochRow(3, 5, 8, {1: 5, 2: 5})]
    assert epoch_table(partition) == (
        "EPOCH  BEGINS AT  ENDS AT  REPLICAS\n"
        "    0          0        5  1, 2\n"
        "    3          5        8  1, 2"
    )  # fmt: skip


def test_where_they_differ_the_leader_counts() -> None:
    behind = _replica(1, 0, 4, (0, 0))
    other = _replica(3, 0, 9, (0, 0), (2, 6))
    partition = _partition(2, behind, _replica(2, 0, 8, (0, 0), (1, 3), (2, 5)), other)
    assert [line.split(maxsplit=3)[3] for line in epoch_table(partition).splitlines()[1:]] == [
        "1, 2, 3",
        "1 (lacks it), 2, 3 (lacks it)",
        "2, 3 (from 6)",
    ]
    assert [(each.begin, each.end) for each in epoch_history(partition)] == [(0, 3), (3, 5), (5, 8)]


def test_a_tail_that_only_one_has_is_shown() -> None:
    partition = _partition(1, _replica(1, 0, 5, (0, 0)), _replica(2, 0, 9, (0, 0), (1, 7)))
    assert epoch_history(partition)[1] == EpochRow(1, 7, 7, {2: 7})


def test_without_a_leader_who_has_most_is_believed() -> None:
    partition = _partition(-1, _replica(1, 0, 5, (0, 0)), _replica(2, 0, 9, (0, 1)))
    assert [(each.begin, each.end) for each in epoch_history(partition)] == [(1, 9)]


def test_what_retention_has_taken_is_no_difference() -> None:
    partition = _partition(1, _replica(1, 2, 9, (0, 2), (1, 5)), _replica(2, 6, 9, (1, 6)))
    assert [line.split(maxsplit=3)[3] for line in epoch_table(partition).splitlines()[1:]] == ["1", "1, 2"]


def test_older_epochs_are_counted_and_lacked_by_nobody() -> None:
    partition = _partition(1, _replica(1, 0, 9, (1, 2), (2, 5), older=1), _replica(2, 0, 9, (2, 5), older=2))
    assert epoch_history(partition)[0] == EpochRow(1, 2, 5, {1: 2})
    assert older_epochs(partition) == 2
    assert epoch_table(partition).endswith("\n2 older epochs are not shown")


def test_where_nobody_tells_nothing_is_shown() -> None:
    partition = _partition(1, ReplicaDetail(1, error_message="SPU 1 is not online"))
    assert (epoch_history(partition), epoch_table(partition), older_epochs(partition)) == ([], "", 0)


def test_programs_have_all_of_it() -> None:
    partition = _partition(1, _replica(1, 0, 5, (4, 0)), _replica(2, 0, 5, (4, 1)))
    assert json.loads(json.dumps(epoch_documents(partition))) == [
        {
            "epoch": 4,
            "begin": 0,
            "end": 5,
            "replicas": [{"spuId": 1, "begin": 0}, {"spuId": 2, "begin": 1}],
            "lacking": [],
        }
    ]
