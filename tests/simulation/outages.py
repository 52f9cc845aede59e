"""Faults of several machines at a time: all SPUs die, leaders die one after the other, or one side replaces the other.

They make epochs short, and elect leaders that know little: what a new leader takes for committed is then far behind
what its predecessor has acknowledged. At least one store always keeps what the policy promises to keep.
"""

from random import Random

import trio
from msgspec.structs import replace

from .faults import Catalogue, Fault, FaultContext, block, kept, kill_spu
from .moments import PARTITION_CHANGE

AWAY_SECONDS = (0.2, 0.8, 2.0, 4.0)
"""How long one side may be away before the other one replaces it; the longest ones exceed most allowed lags."""
KILLS_SECONDS = 4.0
"""How long leaders are killed."""


async def end_all_spus(context: FaultContext, fault: Fault) -> None:
    """Kills all SPUs at the same time; some lose their power or their disks. Each comes back at another time."""
    await _end_all(context, fault, sorted(context.world.spus))


async def change_sides(context: FaultContext, fault: Fault) -> None:
    """Isolates an SPU for a while; when the others can reach it again, they have just been killed.

    The SPU then meets leaders that have forgotten how much was committed. If it is elected, it lacks what the others
    have committed without it.
    """
    chance = Random(fault.seed)
    leaders = _leaders(context)
    number = chance.choice(leaders) if leaders and chance.random() < 0.5 else context.spu(fault)[0]
    machine = context.world.spus[number]
    others = [each for each in context.world.hosts if each != machine.host]
    if chance.random() < 0.5:
        others = [each for each in others if each.startswith("spu-")]
    pairs = [pair for each in others for pair in ((machine.host, each), (each, machine.host))]
    await block(context, pairs, replace(fault, seconds=chance.choice(AWAY_SECONDS) * chance.uniform(0.5, 1.5)))
    if not context.is_over.is_set():
        await _end_all(context, fault, [each for each in sorted(context.world.spus) if each != number])


async def kill_leaders(context: FaultContext, fault: Fault) -> None:
    """Kills one leader after the other, each at or soon after an election or a change of a live replica set."""
    chance = Random(fault.seed)
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(KILLS_SECONDS):
            while not context.is_over.is_set():
                await context.moments.wait(PARTITION_CHANGE)
                await context.last(chance.choice((0.0, 0.002, 0.02, 0.2)) * chance.random())
                leaders = _leaders(context)
                if leaders and not context.is_over.is_set():
                    target = sorted(context.world.spus).index(chance.choice(leaders))
                    seconds = chance.choice((0.02, 0.3, 1.0)) * chance.uniform(0.5, 1.5)
                    nursery.start_soon(kill_spu, context, replace(fault, target=target, seconds=seconds))
                await context.last(chance.choice((0.0, 0.1, 0.5)) * chance.random())


async def _end_all(context: FaultContext, fault: Fault, spus: list[int]) -> None:
    """Ends SPUs at the same time; some lose their power or their disks, as far as they may."""
    chance = Random(fault.seed)
    share = chance.choice((0.0, 0.5, 0.8))
    numbers = sorted(context.world.spus)
    chance.shuffle(spus)
    async with trio.open_nursery() as nursery:
        for spu in spus:
            seconds = chance.choice((0.02, 0.2, 1.0, 3.0)) * chance.uniform(0.5, 1.5)
            if chance.random() < share:
                context.lose_power(spu, "nothing" if chance.random() < 0.3 else kept(chance))
            dies = replace(fault, target=numbers.index(spu), seconds=seconds)
            nursery.start_soon(kill_spu, context, dies)


def _leaders(context: FaultContext) -> list[int]:
    """Returns the SPUs that take themselves for leaders."""
    running = context.world.running_spus()
    return sorted(number for number, spu in running.items() if any(replica.is_leader for replica in spu.replicas))


OUTAGES: Catalogue = {
    "end_all_spus": (3, end_all_spus),
    "change_sides": (2, change_sides),
    "kill_leaders": (1, kill_leaders),
}
"""The faults of several machines at a time."""
