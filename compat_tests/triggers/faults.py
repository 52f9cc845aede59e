"""The faults of a fault run. Each lasts until something can be observed, and leaves everything running again."""

from collections.abc import Callable

from freezing import frozen
from node_cluster import Watcher
from spu_cluster import SeparateCluster
from triggers.running_replicas import REPLICAS, TOPIC, RunningTrigger
from waiting import wait_until

SECONDS_MAX = 60

Fault = Callable[[SeparateCluster, RunningTrigger, int], None]
"""A fault of the trigger or of its cluster; the number chooses the victim."""


def kill_worker(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    name = trigger.owner(number)
    worker = trigger.workers(name)[0]
    trigger.kill_worker(worker)
    wait_until(lambda: len(set(trigger.workers(name)) - {worker}) == 2, SECONDS_MAX, "another worker is started")


def freeze_worker(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    """Freezes a worker until its replica kills it, because an event takes too long."""
    name = trigger.owner(number)
    worker = trigger.workers(name)[-1]
    with trigger.frozen(worker):
        wait_until(lambda: worker not in trigger.workers(name), SECONDS_MAX, "a frozen worker is killed")


def kill_replica(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    name = trigger.owner(number)
    trigger.kill(name)
    trigger.launch(name)


def freeze_replica(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    """Freezes a replica until the spare has its shards; its workers run on."""
    name = trigger.owner(number)
    with trigger.frozen(trigger.pid(name)):
        trigger.wait_until_all_are_owned(but=name)


def freeze_replica_and_workers(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    name = trigger.owner(number)
    with trigger.frozen(trigger.pid(name), *trigger.workers(name)):
        trigger.wait_until_all_are_owned(but=name)


def stop_replica(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    name = trigger.owner(number)
    trigger.leave(name)
    trigger.wait_until_all_are_owned(but=name)
    trigger.launch(name)


def redeploy(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    """Restarts all replicas one by one; each time the spare takes over."""
    for _ in range(REPLICAS):
        stop_replica(cluster, trigger, number)


def kill_spu(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    cluster.kill_spu(cluster.ids[number % len(cluster.ids)])


def stop_spu(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    spu = cluster.ids[number % len(cluster.ids)]
    assert cluster.stop_spu(spu) == 0
    cluster.start_spu(spu)


def freeze_spu(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    """Freezes an SPU until it leads no shard."""
    spu = cluster.ids[number % len(cluster.ids)]
    watcher = Watcher(cluster.bootstrap)
    with frozen([cluster.spu_pid(spu)]):
        wait_until(
            lambda: spu not in {each.leader for each in watcher.states(TOPIC).values()}, SECONDS_MAX, "others lead"
        )


def kill_sc(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    cluster.kill_controller()
    cluster.start_controller()


def stop_sc(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    assert cluster.controller.stop() == 0
    cluster.start_controller()


def freeze_sc(cluster: SeparateCluster, trigger: RunningTrigger, number: int) -> None:
    """Freezes the SC until every replica has given up its shards, because no heartbeat was acknowledged."""
    before, owners = trigger.losses(), trigger.owners()
    with frozen([cluster.controller.pid]):
        wait_until(lambda: all(trigger.losses()[each] > before[each] for each in owners), SECONDS_MAX, "leases end")


SHORT: tuple[Fault, ...] = (
    kill_worker,
    kill_replica,
    freeze_replica,
    freeze_replica_and_workers,
    stop_replica,
    kill_spu,
    kill_sc,
)
ALL: tuple[Fault, ...] = (
    *SHORT,
    freeze_worker,
    stop_spu,
    freeze_spu,
    stop_sc,
    freeze_sc,
    redeploy,
)
