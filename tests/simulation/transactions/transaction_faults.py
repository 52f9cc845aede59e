"""Faults of transaction coordinators and of the leaders of what they mark, in the middle of transactions."""

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import trio
from msgspec.structs import replace
from simulation.faults import (
    CATALOGUE,
    Catalogue,
    Fault,
    FaultContext,
    freeze,
    kill_spu,
    kill_spu_in_a_write,
    lose_power,
    lose_power_in_a_write,
    restart_spu,
)
from simulation.group_faults import cut_from_spus, cut_off
from simulation.moments import TRANSACTION_MOMENTS

from tailrace.cluster.coordinators import GROUPS_TOPIC, TRANSACTIONS_TOPIC

WAIT_SECONDS_MAX = 1.0
"""How long a fault waits for a producer to reach its moment; after that, any moment is right."""
TOPICS = {"transaction_coordinator": TRANSACTIONS_TOPIC, "offset_keeper": GROUPS_TOPIC, "writer": "payments"}
"""Who is harmed: the leader of a partition of this topic."""
ENDS = ("end", "ended", "markers", "markers")
"""The moments at which decisions and markers are on their way."""


async def strand(context: FaultContext, fault: Fault) -> None:
    """Keeps one other SPU from hearing of an SPU, which is killed soon. What is under way arrives later."""
    number, machine = context.spu(fault)
    chance, internet = Random(fault.seed), context.world.internet
    other = context.world.spus[chance.choice([each for each in sorted(context.world.spus) if each != number])]
    internet.block(machine.host, other.host)
    await context.last(chance.choice((0.05, 0.3)) * chance.uniform(0.2, 1.5))
    if not context.is_over.is_set():
        context.world.kill(machine)
        await context.last(fault.seconds)
    internet.unblock(machine.host, other.host)
    context.world.start_spu(number)


HARMS: dict[str, tuple[float, Callable[[FaultContext, Fault], Awaitable[None]]]] = {
    "kill": (4, kill_spu),
    "kill_in_a_write": (2, kill_spu_in_a_write),
    "lose_power": (2, lose_power),
    "lose_power_in_a_write": (2, lose_power_in_a_write),
    "restart": (2, restart_spu),
    "freeze": (2, freeze),
    "cut_off": (3, cut_off),
    "cut_from_spus": (3, cut_from_spus),
    "strand": (4, strand),
}
WEIGHTS = {"transaction_coordinator": 1.0, "offset_keeper": 0.3, "writer": 0.6}


async def harm_a_leader(
    topic: str, harm: Callable[[FaultContext, Fault], Awaitable[None]], context: FaultContext, fault: Fault
) -> None:
    """Harms an SPU that leads a partition of the topic, when a producer reaches some moment."""
    chance = Random(fault.seed)
    with trio.move_on_after(WAIT_SECONDS_MAX):
        await context.moments.wait(chance.choice(ENDS if harm in (strand, lose_power) else TRANSACTION_MOMENTS))
    await context.last(chance.choice((0.0, 0.002, 0.02, 0.1)) * chance.random())
    if not context.is_over.is_set():
        await harm(context, replace(fault, target=_leader(context, topic, fault.target)))


def _leader(context: FaultContext, topic: str, target: int) -> int:
    """Returns the number of a machine whose SPU takes itself for a leader of the topic."""
    running = context.world.running_spus()
    leading = [
        place
        for place, number in enumerate(sorted(context.world.spus))
        if number in running
        and any(replica.topic == topic and replica.is_leader for replica in running[number].replicas)
    ]
    return leading[target % len(leading)] if leading else target


TRANSACTION_CATALOGUE: Catalogue = {
    **{name: (weight * 0.5, function) for name, (weight, function) in CATALOGUE.items()},
    **{
        f"{harm}_{who}": (weight * WEIGHTS[who], partial(harm_a_leader, topic, function))
        for who, topic in TOPICS.items()
        for harm, (weight, function) in HARMS.items()
    },
}
"""The faults that a cluster with transactions may suffer."""
