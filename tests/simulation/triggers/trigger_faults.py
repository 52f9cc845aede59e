"""Faults of the replicas of a trigger and of their workers."""

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import trio
from simulation.faults import Catalogue, Fault, FaultContext, block
from simulation.group_faults import GROUP_CATALOGUE

from .simulated_replicas import RESTART_SECONDS, SimulatedReplicas
from .trigger_scenario import CLUSTER_FAULTS, REPLICA_FAULTS


def catalogue_of(replicas: SimulatedReplicas) -> Catalogue:
    """Returns the faults that a cluster with these replicas may suffer."""
    functions: dict[str, Callable[[SimulatedReplicas, FaultContext, Fault], Awaitable[None]]] = {
        each.__name__: each
        for each in (
            kill_replica,
            kill_worker,
            replace_lost_replica,
            freeze_replica,
            freeze_workers,
            freeze_replica_and_workers,
            stop_replica,
            redeploy,
            scale,
            cut_replica_from_scs,
            cut_replica_from_brokers,
            cut_replica_off,
            cut_replica_one_way,
            fade_away,
            clog_replica,
            jump_clock_of_replica,
            reset_connections_of_replica,
        )
    }
    own = {name: (weight, partial(functions[name], replicas)) for name, weight in REPLICA_FAULTS.items()}
    return {**{name: GROUP_CATALOGUE[name] for name in CLUSTER_FAULTS}, **own}


async def kill_replica(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Kills a replica, which is started again under the same name, often at once."""
    machine = replicas.machine(fault.target)
    replicas.kill(machine)
    await context.last(fault.seconds if Random(fault.seed).random() < 0.5 else RESTART_SECONDS)
    replicas.start(machine)


async def replace_lost_replica(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Starts a replica of the same name although the other one still runs, because a supervisor has lost sight of it.

    The other one is killed later, when it is found.
    """
    machine = replicas.machine(fault.target)
    lost = replicas.take(machine)
    replicas.start(machine)
    await context.last(fault.seconds)
    if lost is not None:
        replicas.kill_process(lost)


async def kill_worker(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    running = replicas.machine(fault.target).running
    if running is not None and running.workers.live:
        Random(fault.seed).choice(running.workers.live).kill()
    await trio.lowlevel.checkpoint()


async def freeze_replica(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Stops a replica with SIGSTOP for a while, often for longer than its session. Its workers go on."""
    running = replicas.machine(fault.target).running
    if running is not None:
        running.process.stop()
        await context.last(fault.seconds)
        running.process.resume()


async def freeze_workers(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Stops the workers of a replica with SIGSTOP for a while."""
    running = replicas.machine(fault.target).running
    if running is not None:
        stopped = [each.process for each in running.workers.live]
        for each in stopped:
            each.stop()
        await context.last(fault.seconds)
        for each in stopped:
            each.resume()


async def freeze_replica_and_workers(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Stops a replica and its workers with SIGSTOP, as a suspended machine does; they go on in any order."""
    running = replicas.machine(fault.target).running
    if running is not None:
        stopped = [running.process, *(each.process for each in running.workers.live)]
        for each in stopped:
            each.stop()
        await context.last(fault.seconds)
        chance = Random(fault.seed)
        chance.shuffle(stopped)
        for each in stopped:
            each.resume()
            await trio.sleep(chance.choice((0.0, 0.0, 0.05)))


async def stop_replica(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    machine = replicas.machine(fault.target)
    await replicas.stop(machine)
    await context.last(min(fault.seconds, 2.0))
    replicas.start(machine)


async def redeploy(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Replaces all replicas, one after the other."""
    for machine in replicas.machines:
        if context.is_over.is_set():
            return
        await replicas.stop(machine)
        replicas.start(machine)
        await context.last(0.3)


async def scale(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Changes the configured number of replicas of a deployed trigger."""
    if replicas.is_deployed:
        await replicas.deploy(Random(fault.seed).randint(1, len(replicas.machines)))


async def cut_replica_from_scs(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Cuts a replica off from the SCs; it still reaches the brokers."""
    await _cut(replicas, context, fault, [each.host for each in context.world.scs.values()])


async def cut_replica_from_brokers(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Cuts a replica off from the brokers; it still reaches the SCs."""
    await _cut(replicas, context, fault, [each.host for each in context.world.spus.values()])


async def cut_replica_off(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Cuts a replica off from everything. What it has sent arrives late."""
    await _cut(replicas, context, fault, context.world.hosts)


async def cut_replica_one_way(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Makes a replica unable to send, or to receive."""
    host = replicas.machine(fault.target).host
    speaks = Random(fault.seed).random() < 0.5
    await block(context, [(each, host) if speaks else (host, each) for each in context.world.hosts], fault)


async def fade_away(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Lets the replies of the SCs come later, almost too late, and then cuts the replica off from the SCs."""
    host, session_seconds = replicas.machine(fault.target).host, replicas.config.session_timeout
    links = [context.world.internet.link(each.host, host) for each in context.world.scs.values()]
    late = 0.17 * session_seconds
    for link in links:
        link.slowed_by += late
    await context.last(session_seconds * Random(fault.seed).uniform(0.5, 1.0))
    await _cut(replicas, context, fault, [each.host for each in context.world.scs.values()])
    for link in links:
        link.slowed_by -= late


async def _cut(replicas: SimulatedReplicas, context: FaultContext, fault: Fault, others: list[str]) -> None:
    host = replicas.machine(fault.target).host
    await block(context, [pair for each in others for pair in ((host, each), (each, host))], fault)


async def clog_replica(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Delays the traffic of a replica, with all servers or with one, in both directions or in one."""
    chance = Random(fault.seed)
    host = replicas.machine(fault.target).host
    others = context.world.hosts if chance.random() < 0.5 else [chance.choice(context.world.hosts)]
    pairs = [pair for each in others for pair in ((host, each), (each, host))]
    if chance.random() < 0.5:
        pairs = pairs[chance.randrange(2) :: 2]
    links = [context.world.internet.link(*pair) for pair in pairs]
    late = chance.choice((0.1, 0.5, 2.0)) * chance.uniform(0.5, 1.5)
    for link in links:
        link.slowed_by += late
    await context.last(fault.seconds)
    for link in links:
        link.slowed_by -= late


async def jump_clock_of_replica(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    """Makes the wall clock of a replica jump for good."""
    clock = replicas.machine(fault.target).clock
    skew_ms = clock.skew_ms + Random(fault.seed).choice((-3_000_000, -5_000, 5_000, 3_000_000))
    clock.skew_ms = max(-3_100_000, min(skew_ms, 3_100_000))
    await trio.lowlevel.checkpoint()


async def reset_connections_of_replica(replicas: SimulatedReplicas, context: FaultContext, fault: Fault) -> None:
    running, chance = replicas.machine(fault.target).running, Random(fault.seed)
    if running is not None:
        for connection in list(running.network.connections):
            if not connection.is_closed and chance.random() < 0.7:
                connection.reset()
    await trio.lowlevel.checkpoint()
