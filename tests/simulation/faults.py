"""What goes wrong in a simulation: a plan made from a seed, as data, so that a failing one can be made smaller.

A fault begins at its time, and where it lasts ends by itself. One that must not be now, since more stores would lose
their page caches than the policy promises to survive, is left out when its time comes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

import trio
from msgspec import Struct

from .files import Keep
from .flips import flip_at_rest, flip_in_lone_end, flip_in_open_header, flip_while_down
from .moments import GROW, Moments
from .world import Machine, World

FILE_OPERATIONS_MAX = 60
GROWTH_AWAITED_SECONDS = 8.0
WRITES_OF_A_GROWTH = 4
LONE_SECONDS_MAX = 2.0
"""So long somebody is waited for who writes to it."""
STORE_WRITES_MAX = 8
"""Of so many an SPU or an SC dies in one."""


class Fault(Struct, frozen=True):
    at: float
    kind: str
    target: int
    """Which machine of its kind, counted round; what each kind makes of it is its own affair."""
    seconds: float
    seed: int

    def __str__(self) -> str:
        return f"{self.at:.3f} s: {self.kind} of {self.target} for {self.seconds:.2f} s"


MayLose = Callable[[int, Keep], bool]
"""Whether that SPU's machine may stop now, of whose disk that is kept."""


class FaultContext:
    def __init__(
        self,
        world: World,
        may_lose: MayLose,
        on_lost: Callable[[int], None],
        may_flip: Callable[[int], bool],
        may_flip_lone: Callable[[int], bool],
        may_fail: Callable[[int], bool],
    ) -> None:
        self.world = world
        self.may_flip = may_flip
        """Whether bits may flip on that SPU's disk now."""
        self.may_flip_lone = may_flip_lone
        """The same, in what is not committed."""
        self.may_fail = may_fail
        """Whether that SPU's disk may fail now."""
        self._may_lose = may_lose
        self._on_lost = on_lost
        self.moments = Moments()
        self.is_over = trio.Event()
        """Everything is mended, whatever was planned to last longer."""
        self.done: list[Fault] = []

    def lose_power(self, number: int, keep: Keep) -> None:
        """Unless it must not be now."""
        machine = self.world.spus[number]
        if machine.process is not None and self._may_lose(number, keep):
            self._on_lost(number)
            self.world.lose_power(machine, keep)

    async def last(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self.is_over.wait()

    def spu(self, fault: Fault) -> tuple[int, Machine]:
        return _pick(self.world.spus, fault.target)

    def sc(self, fault: Fault) -> tuple[int, Machine]:
        return _pick(self.world.scs, fault.target)


def _pick(machines: dict[int, Machine], target: int) -> tuple[int, Machine]:
    number = sorted(machines)[target % len(machines)]
    return number, machines[number]


# processes and machines


async def kill_spu(context: FaultContext, fault: Fault) -> None:
    number, machine = context.spu(fault)
    context.world.kill(machine)
    await context.last(fault.seconds)
    context.world.start_spu(number)


async def kill_spu_in_a_write(context: FaultContext, fault: Fault) -> None:
    """At any operation on its files: between two writes of one step, and between a write and its sync."""
    number, machine = context.spu(fault)
    machine.files.on_operation = _in_one_of(FILE_OPERATIONS_MAX, fault, lambda: context.world.kill(machine))
    await context.last(fault.seconds)
    machine.files.on_operation = lambda: None
    context.world.start_spu(number)


def _in_one_of(most: int, fault: Fault, fail: Callable[[], None]) -> Callable[[], None]:
    """What is to be called before each of several, of which one fails."""
    left = Random(fault.seed).randint(1, most)

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            fail()

    return count


async def lose_power(context: FaultContext, fault: Fault) -> None:
    number, _ = context.spu(fault)
    context.lose_power(number, _kept(fault))
    await context.last(fault.seconds)
    context.world.start_spu(number)


async def lose_power_in_a_write(context: FaultContext, fault: Fault) -> None:
    number, machine = context.spu(fault)
    machine.files.on_operation = _in_one_of(
        FILE_OPERATIONS_MAX, fault, lambda: context.lose_power(number, _kept(fault))
    )
    await context.last(fault.seconds)
    machine.files.on_operation = lambda: None
    context.world.start_spu(number)


async def lose_disk(context: FaultContext, fault: Fault) -> None:
    """The machine comes back with an empty one."""
    number, _ = context.spu(fault)
    context.lose_power(number, "nothing")
    await context.last(fault.seconds)
    context.world.start_spu(number)


def _kept(fault: Fault) -> Keep:
    chance = Random(fault.seed)
    return "synced" if chance.random() < 0.4 else chance


async def restart_spu(context: FaultContext, fault: Fault) -> None:
    number, machine = context.spu(fault)
    await context.world.stop(machine)
    await trio.sleep(min(fault.seconds, 0.5))
    context.world.start_spu(number)


async def kill_sc(context: FaultContext, fault: Fault) -> None:
    number, machine = context.sc(fault)
    context.world.kill(machine)
    await context.last(fault.seconds)
    context.world.start_sc(number)


async def kill_sc_in_a_write(context: FaultContext, fault: Fault) -> None:
    """Between two things that it stores, or before it learns that one is stored."""
    await _kill_sc_in_one_of(STORE_WRITES_MAX, context, fault)


async def kill_sc_as_a_topic_grows(context: FaultContext, fault: Fault) -> None:
    """The same, while it stores that there are more partitions, and who is to have and lead them."""
    with trio.move_on_after(GROWTH_AWAITED_SECONDS):
        await context.moments.wait(GROW)
        await _kill_sc_in_one_of(WRITES_OF_A_GROWTH, context, fault)


async def _kill_sc_in_one_of(most: int, context: FaultContext, fault: Fault) -> None:
    number, machine = context.sc(fault)
    if machine.store is not None:
        machine.store.on_write = _in_one_of(most, fault, lambda: context.world.kill(machine))
    await context.last(fault.seconds)
    if machine.store is not None:
        machine.store.on_write = lambda: None
    context.world.start_sc(number)


async def cut_store_off(context: FaultContext, fault: Fault) -> None:
    """An SC does not reach what it keeps its objects in."""
    _, machine = context.sc(fault)
    store = machine.store
    if store is not None:
        store.is_cut_off = True
        await context.last(fault.seconds)
        store.is_cut_off = False


# disks


async def fill_disk(context: FaultContext, fault: Fault) -> None:
    _, machine = context.spu(fault)
    machine.files.room_bytes = Random(fault.seed).randrange(2000)
    await context.last(fault.seconds)
    machine.files.room_bytes = None


async def fail_syncs(context: FaultContext, fault: Fault) -> None:
    number, machine = context.spu(fault)
    if not context.may_fail(number):
        return
    machine.files.syncs_fail = True
    await context.last(fault.seconds)
    machine.files.syncs_fail = False


async def fail_reads(context: FaultContext, fault: Fault) -> None:
    _, machine = context.spu(fault)
    machine.files.reads_fail = True
    await context.last(fault.seconds)
    machine.files.reads_fail = False


async def flip_bits(context: FaultContext, fault: Fault) -> None:
    """While it runs; perhaps its process ends then, and perhaps bits flip that the next one reads at its start."""
    number, _ = context.spu(fault)
    chance = Random(fault.seed)
    for _ in range(chance.choice((1, 1, 3))):
        if context.may_flip(number):
            flip_at_rest(context.world, number, chance)
    if chance.random() < 0.5:
        await context.last(fault.seconds * chance.random())
        await chance.choice((kill_spu, restart_spu))(context, fault)


async def flip_open_headers(context: FaultContext, fault: Fault) -> None:
    """The same in headers of what it has open; it goes on, for it alone can tell what was there."""
    number, _ = context.spu(fault)
    chance = Random(fault.seed)
    until = trio.current_time() + fault.seconds
    while trio.current_time() < until and not context.is_over.is_set():
        if context.may_flip(number) and flip_in_open_header(context.world, number, chance) is not None:
            return
        await context.last(0.01)


async def flip_lone_end(context: FaultContext, fault: Fault) -> None:
    """All followers of what an SPU leads are killed, and bits flip in what it alone has then, before they come back.
    Which SPU, chance says: it must lead something."""
    chance = Random(fault.seed)
    led = [
        (number, replica)
        for number, process in context.world.running_spus().items()
        for replica in process.replicas
        if replica.is_recovered_leader and not replica.is_internal and context.may_flip_lone(number)
    ]
    if not led:
        return
    number, replica = chance.choice(led)
    machine = context.world.spus[number]
    others = [spu for spu in replica.spec.replicas if spu != number]
    killed = [spu for spu in others if context.world.spus[spu].process is not None]
    for spu in killed:
        context.world.kill(context.world.spus[spu])
    until = trio.current_time() + LONE_SECONDS_MAX
    while trio.current_time() < until and not context.is_over.is_set():
        await context.last(0.01)
        is_lone = machine.process is not None and not any(context.world.spus[spu].process for spu in others)
        may_flip = is_lone and context.may_flip_lone(number)
        if may_flip and flip_in_lone_end(context.world, number, {replica.key}, chance) is not None:
            break
    await context.last(fault.seconds)
    for spu in killed:
        context.world.start_spu(spu)


async def flip_bits_while_down(context: FaultContext, fault: Fault) -> None:
    number, machine = context.spu(fault)
    chance = Random(fault.seed)
    if chance.random() < 0.5:
        await context.world.stop(machine)
    else:
        context.world.kill(machine)
    await context.last(fault.seconds / 2)
    if machine.process is None and context.may_flip(number):
        flip_while_down(context.world, number, chance)
    await context.last(fault.seconds / 2)
    context.world.start_spu(number)


async def slow_disk(context: FaultContext, fault: Fault) -> None:
    _, machine = context.spu(fault)
    chance = Random(fault.seed)
    machine.sync_seconds = lambda: chance.uniform(0.05, 0.4)
    await context.last(fault.seconds)
    machine.sync_seconds = None


async def jump_clock(context: FaultContext, fault: Fault) -> None:
    """Of the wall, for good."""
    machines = [*context.world.spus.values(), *context.world.scs.values()]
    machine = machines[fault.target % len(machines)]
    skew_ms = machine.clock.skew_ms + Random(fault.seed).choice((-3_000_000, -5_000, 5_000, 3_000_000))
    # Less than an hour: a broker rightly refuses records that are made so far in its future.
    machine.clock.skew_ms = max(-3_100_000, min(skew_ms, 3_100_000))


# the network


async def partition(context: FaultContext, fault: Fault) -> None:
    """One machine is cut off from all the others."""
    host = _any_host(context, fault)
    others = [each for each in context.world.hosts if each != host]
    await block_between(context, host, others, fault)


async def partition_one_way(context: FaultContext, fault: Fault) -> None:
    """One machine is heard by nobody, or hears nobody."""
    host = _any_host(context, fault)
    others = [each for each in context.world.hosts if each != host]
    speaks = Random(fault.seed).random() < 0.5
    await block(context, [(each, host) if speaks else (host, each) for each in others], fault)


async def cut_link(context: FaultContext, fault: Fault) -> None:
    """Between two machines, one way or both."""
    chance = Random(fault.seed)
    one, other = chance.sample(context.world.hosts, 2)
    pairs = [(one, other), (other, one)]
    await block(context, pairs[: chance.randint(1, 2)], fault)


async def freeze(context: FaultContext, fault: Fault) -> None:
    """A process is stopped for a while, as by SIGSTOP: it hears nothing, says nothing, and its disk does not answer.

    Its own timers go on, which is worse than what a real one meets.
    """
    _, machine = context.spu(fault)
    ends = trio.current_time() + fault.seconds
    machine.sync_seconds = lambda: max(ends - trio.current_time(), 0.001)
    host = machine.host
    others = sorted({end for pair in context.world.internet.links for end in pair} - {host})
    await block_between(context, host, others, fault)
    machine.sync_seconds = None


async def partition_from_clients(context: FaultContext, fault: Fault) -> None:
    """The machines reach each other, and no client reaches one of them."""
    _, machine = context.spu(fault)
    await block_between(context, machine.host, clients_of(context), fault)


def clients_of(context: FaultContext) -> list[str]:
    """Of the hosts, those that have been heard of so far."""
    return sorted({end for pair in context.world.internet.links for end in pair} - set(context.world.hosts))


async def block_between(context: FaultContext, host: str, others: Sequence[str], fault: Fault) -> None:
    """Both ways."""
    await block(context, [pair for each in others for pair in ((host, each), (each, host))], fault)


async def block(context: FaultContext, pairs: Sequence[tuple[str, str]], fault: Fault) -> None:
    internet = context.world.internet
    for sender, receiver in pairs:
        internet.block(sender, receiver)
    await context.last(fault.seconds)
    for sender, receiver in pairs:
        internet.unblock(sender, receiver)


async def clog(context: FaultContext, fault: Fault) -> None:
    """A machine's traffic, all of it or to one other, is very late: the machine itself might be slow."""
    chance = Random(fault.seed)
    host = _any_host(context, fault)
    others = [each for each in context.world.hosts if each != host]
    if chance.random() < 0.5:
        others = [chance.choice(others)]
    links = [context.world.internet.link(*pair) for each in others for pair in ((host, each), (each, host))]
    late = chance.uniform(0.02, 0.8)
    for link in links:
        link.slowed_by += late
    await context.last(fault.seconds)
    for link in links:
        link.slowed_by -= late


async def reset_connections(context: FaultContext, fault: Fault) -> None:
    chance = Random(fault.seed)
    _, machine = context.spu(fault)
    if machine.process is not None:
        for connection in list(machine.process.network.connections):
            if not connection.is_closed and chance.random() < 0.7:
                connection.reset()


def _any_host(context: FaultContext, fault: Fault) -> str:
    hosts = context.world.hosts
    return hosts[fault.target % len(hosts)]


Catalogue = Mapping[str, tuple[float, Callable[[FaultContext, Fault], Awaitable[None]]]]
"""By name: how often, compared with the others, and what it does."""

CATALOGUE: Catalogue = {
    "kill_spu": (3, kill_spu),
    "kill_spu_in_a_write": (3, kill_spu_in_a_write),
    "lose_power": (3, lose_power),
    "lose_power_in_a_write": (3, lose_power_in_a_write),
    "lose_disk": (1, lose_disk),
    "restart_spu": (2, restart_spu),
    "kill_sc": (1.5, kill_sc),
    "kill_sc_in_a_write": (1, kill_sc_in_a_write),
    "cut_store_off": (0.5, cut_store_off),
    "fill_disk": (0.5, fill_disk),
    "fail_syncs": (0.5, fail_syncs),
    "fail_reads": (0.3, fail_reads),
    "slow_disk": (1, slow_disk),
    "jump_clock": (0.5, jump_clock),
    "partition": (2.5, partition),
    "partition_one_way": (2, partition_one_way),
    "cut_link": (2.5, cut_link),
    "freeze": (1.5, freeze),
    "partition_from_clients": (0.5, partition_from_clients),
    "clog": (1.5, clog),
    "reset_connections": (1.5, reset_connections),
    "kill_sc_as_a_topic_grows": (0, kill_sc_as_a_topic_grows),  # planned where one does
    "flip_bits": (0, flip_bits),  # planned where they are mended soon
    "flip_bits_while_down": (0, flip_bits_while_down),
    "flip_open_headers": (0, flip_open_headers),
    "flip_lone_end": (0, flip_lone_end),  # planned where one store alone acknowledges nothing
}
"""What can go wrong in any cluster."""


def plan(
    chance: Random, catalogue: Catalogue, names: Sequence[str], *, count: int, begins: float, ends: float
) -> list[Fault]:
    """Of the kinds with these names."""
    weights = [catalogue[name][0] for name in names]
    faults = []
    for _ in range(count):
        (kind,) = chance.choices(names, weights)
        at = chance.uniform(begins, ends)
        seconds = chance.choice((0.05, 0.5, 2.0, 4.0)) * chance.uniform(0.5, 1.5)
        faults.append(Fault(at, kind, chance.randrange(1000), seconds, chance.getrandbits(32)))
    return sorted(faults, key=lambda fault: fault.at)


async def carry_out(context: FaultContext, catalogue: Catalogue, faults: Sequence[Fault]) -> None:
    """Until the last has ended."""
    async with trio.open_nursery() as nursery:
        for fault in faults:
            with trio.move_on_at(fault.at):
                await context.is_over.wait()
                return
            context.done.append(fault)
            nursery.start_soon(catalogue[fault.kind][1], context, fault)
