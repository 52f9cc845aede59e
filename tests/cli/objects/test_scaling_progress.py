from uuid import UUID

from tailrace.cli.objects.scaling_progress import LeavingSpu, ScalingProgress, progress_of, sentences
from tailrace.controller.objects.objects import (
    Partition,
    PartitionSpec,
    Spu,
    SpuGroup,
    SpuGroupSpec,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    SpuType,
    Topic,
    TopicSpec,
    TopicStatus,
)
from tailrace.protocol.ids import SpuId

ID = UUID(int=1)
ONLINE, INIT = SpuStatus(SpuResolution.ONLINE), SpuStatus()


def group(replicas: int) -> SpuGroup:
    return SpuGroup("main", SpuGroupSpec(replicas, SpuId(1)))


def member(spu: int, status: SpuStatus = ONLINE) -> Spu:
    return Spu(SpuSpec(SpuId(spu), SpuType.MANAGED, group="main"), status)


def partition(number: int, *replicas: int, topic: str = "orders") -> Partition:
    return Partition(topic, ID, number, PartitionSpec(SpuId(replicas[0]), tuple(map(SpuId, replicas))))


def topic(name: str = "orders", *rows: tuple[int, ...]) -> Topic:
    replica_map = {number: tuple(map(SpuId, row)) for number, row in enumerate(rows)}
    return Topic(name, ID, TopicSpec(len(rows) or 1), TopicStatus(replica_map=replica_map))


def test_a_group_with_all_its_spus_is_done() -> None:
    progress = progress_of(group(2), [member(1), member(2), Spu(SpuSpec(SpuId(9)), INIT)], [], [])
    assert progress == ScalingProgress("main", 2, (), ())
    assert progress.is_done
    assert not progress.is_stuck
    assert sentences(progress) == []


def test_spus_that_are_not_online_are_starting() -> None:
    progress = progress_of(group(3), [member(1), member(2, INIT)], [], [])
    assert progress.starting == (2, 3)
    assert not progress.is_done


def test_an_spu_leaves_when_its_replicas_have_moved() -> None:
    held = [partition(0, 1), partition(1, 2), partition(2, 2, 1)]
    progress = progress_of(group(1), [member(1), member(2)], [topic("orders", (1,), (1,), (1,))], held)
    assert progress.leaving == (LeavingSpu(SpuId(2), 2, {}),)
    assert (progress.held, progress.is_stuck) == (2, False)
    assert sentences(progress) == ["SPU 2 leaves when its 2 replicas have moved to other SPUs"]


def test_an_spu_stays_if_its_replicas_need_it() -> None:
    spus = [member(1), member(2), member(3), Spu(SpuSpec(SpuId(9)), INIT)]
    wide = [partition(0, 1, 2, 3), partition(0, 3, 2, topic="payments")]
    topics = [topic("orders", (1, 2, 3)), topic("payments", (3, 2))]
    progress = progress_of(group(1), spus, topics, wide)
    assert progress.leaving == (
        LeavingSpu(SpuId(2), 2, {"orders": 3, "payments": 2}),
        LeavingSpu(SpuId(3), 2, {"orders": 3, "payments": 2}),
    )
    assert progress.is_stuck
    assert sentences(progress)[0] == (
        "SPU 2 stays, because it holds 2 replicas: orders, payments need 3 SPUs, and 1 would be online; keep 3, or "
        "run `tailrace topic alter orders payments --replication-factor 1`"
    )
    some = progress_of(group(2), spus, topics, wide)
    assert sentences(some) == [
        "SPU 3 stays, because it holds 2 replicas: orders needs 3 SPUs, and 2 would be online; keep 3, or run "
        "`tailrace topic alter orders --replication-factor 2`"
    ]


def test_nothing_is_stuck_while_spus_start_or_replicas_move() -> None:
    moving, stuck = LeavingSpu(SpuId(3), 1, {}), LeavingSpu(SpuId(4), 1, {"orders": 3})
    assert not ScalingProgress("main", 2, (), (moving, stuck)).is_stuck
    assert not ScalingProgress("main", 2, (SpuId(1),), (stuck,)).is_stuck
    assert not ScalingProgress("main", 2, (), (LeavingSpu(SpuId(4), 0, {}),)).is_stuck
    assert ScalingProgress("main", 2, (), (stuck,)).is_stuck
