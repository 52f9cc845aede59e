"""Faults of group coordinators, in the middle of what a member does."""

from collections.abc import Awaitable, Callable
from random import Random

import trio
from msgspec.structs import replace

from tailrace.cluster.coordinators import GROUPS_TOPIC

from .faults import (
    CATALOGUE,
    Catalogue,
    Fault,
    FaultContext,
    block_between,
    clients_of,
    freeze,
    kill_spu,
    kill_spu_in_a_write,
    lose_power,
    lose_power_in_a_write,
    restart_spu,
)
from .moments import MOMENTS
from .simulated_group import ONLOOKER

WAIT_SECONDS_MAX = 2.0
"""How long a fault waits for a member to reach its moment; after that, any moment is right."""


async def kill_coordinator(context: FaultContext, fault: Fault) -> None:
    await _at_a_moment(context, fault, kill_spu)


async def kill_coordinator_in_a_write(context: FaultContext, fault: Fault) -> None:
    await _at_a_moment(context, fault, kill_spu_in_a_write)


async def lose_power_of_coordinator(context: FaultContext, fault: Fault) -> None:
    await _at_a_moment(context, fault, lose_power)


async def lose_power_of_coordinator_in_a_write(context: FaultContext, fault: Fault) -> None:
    await _at_a_moment(context, fault, lose_power_in_a_write)


async def restart_coordinator(context: FaultContext, fault: Fault) -> None:
    await _at_a_moment(context, fault, restart_spu)


async def freeze_coordinator(context: FaultContext, fault: Fault) -> None:
    await _at_a_moment(context, fault, freeze)


async def cut_coordinator_off(context: FaultContext, fault: Fault) -> None:
    """Isolates the coordinator from all but onlookers and some members: it is deposed, and the last to learn that."""
    await _at_a_moment(context, fault, cut_off)


async def cut_coordinator_from_followers(context: FaultContext, fault: Fault) -> None:
    """Isolates the coordinator from its followers: it keeps its lease, but can commit nothing while they count as
    live."""
    await _at_a_moment(context, fault, cut_from_spus)


async def cut_off(context: FaultContext, fault: Fault) -> None:
    """Isolates an SPU from all but onlookers and some clients."""
    _, machine = context.spu(fault)
    chance = Random(fault.seed)
    share = chance.choice((0.0, 0.5, 1.0))
    others = [host for host in context.world.hosts if host != machine.host]
    others += [each for each in clients_of(context) if not each.startswith(ONLOOKER) and chance.random() < share]
    await block_between(context, machine.host, others, fault)


async def cut_from_spus(context: FaultContext, fault: Fault) -> None:
    """Isolates an SPU from the other SPUs."""
    _, machine = context.spu(fault)
    others = [each.host for each in context.world.spus.values() if each is not machine]
    await block_between(context, machine.host, others, fault)


async def _at_a_moment(
    context: FaultContext, fault: Fault, then: Callable[[FaultContext, Fault], Awaitable[None]]
) -> None:
    chance = Random(fault.seed)
    with trio.move_on_after(WAIT_SECONDS_MAX):
        await context.moments.wait(chance.choice(MOMENTS))
    await context.last(chance.choice((0.0, 0.002, 0.02, 0.1)) * chance.random())
    if not context.is_over.is_set():
        await then(context, replace(fault, target=_coordinator(context, fault)))


def _coordinator(context: FaultContext, fault: Fault) -> int:
    """Returns the number of a machine whose SPU takes itself for a coordinator."""
    running = context.world.running_spus()
    coordinating = [
        place
        for place, number in enumerate(sorted(context.world.spus))
        if number in running
        and any(replica.topic == GROUPS_TOPIC and replica.is_leader for replica in running[number].replicas)
    ]
    return coordinating[fault.target % len(coordinating)] if coordinating else fault.target


GROUP_CATALOGUE: Catalogue = {
    **CATALOGUE,
    "kill_coordinator": (4, kill_coordinator),
    "kill_coordinator_in_a_write": (3, kill_coordinator_in_a_write),
    "lose_power_of_coordinator": (4, lose_power_of_coordinator),
    "lose_power_of_coordinator_in_a_write": (2, lose_power_of_coordinator_in_a_write),
    "restart_coordinator": (2, restart_coordinator),
    "freeze_coordinator": (2, freeze_coordinator),
    "cut_coordinator_off": (5, cut_coordinator_off),
    "cut_coordinator_from_followers": (4, cut_coordinator_from_followers),
}
"""The faults that a cluster with groups may suffer."""
