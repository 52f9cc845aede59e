"""The faults of a simulation: a plan of data, made from a seed, so that a failing plan can be made smaller.

A fault starts at its time and, if it lasts, ends by itself. It is skipped if it must not happen then, because more
stores would lose their page caches than the policy promises to survive.
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
"""How long a fault waits for an SPU that another one writes to."""
STORE_WRITES_MAX = 8
"""An SPU or an SC is killed in one of so many writes."""


class Fault(Struct, frozen=True):
    at: float
    kind: str
    target: int
    """The number of a machine, modulo their count; each kind of fault interprets it in its own way."""
    seconds: float
    seed: int

    def __str__(self) -> str:
        return f"{self.at:.3f} s: {self.kind} for {self.seconds:.2f} s (target {self.target})"


MayLose = Callable[[int, Keep], bool]
"""Whether the machine of that SPU may stop now, and keep that much of its disk."""


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
        """Whether bits may flip on the disk of that SPU now."""
        self.may_flip_lone = may_flip_lone
        """Whether bits may flip in what is not committed on that SPU now."""
        self.may_fail = may_fail
        """Whether the disk of that SPU may fail now."""
        self._may_lose = may_lose
        self._on_lost = on_lost
        self.moments = Moments()
        self.is_over = trio.Event()
        """The event that ends all faults, however long they were planned to last."""
        self.done: list[Fault] = []

    def lose_power(self, number: int, keep: Keep) -> None:
        """Cuts the power of an SPU's machine, unless that must not happen now."""
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
    """Kills the SPU in any operation on its files: between two writes of one step, or between a write and its sync."""
    number, machine = context.spu(fault)
    machine.files.on_operation = _in_one_of(FILE_OPERATIONS_MAX, fault, lambda: context.world.kill(machine))
    await context.last(fault.seconds)
    machine.files.on_operation = lambda: None
    context.world.start_spu(number)


def _in_one_of(most: int, fault: Fault, fail: Callable[[], None]) -> Callable[[], None]:
    """Returns a function to call before each of several operations, which fails in one of them."""
    left = Random(fault.seed).randint(1, most)

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            fail()

    return count


async def lose_power(context: FaultContext, fault: Fault) -> None:
    number, _ = context.spu(fault)
    context.lose_power(number, kept(Random(fault.seed)))
    await context.last(fault.seconds)
    context.world.start_spu(number)


async def lose_power_in_a_write(context: FaultContext, fault: Fault) -> None:
    number, machine = context.spu(fault)
    machine.files.on_operation = _in_one_of(
        FILE_OPERATIONS_MAX, fault, lambda: context.lose_power(number, kept(Random(fault.seed)))
    )
    await context.last(fault.seconds)
    machine.files.on_operation = lambda: None
    context.world.start_spu(number)


async def lose_disk(context: FaultContext, fault: Fault) -> None:
    """Replaces the disk of the machine by an empty one."""
    number, _ = context.spu(fault)
    context.lose_power(number, "nothing")
    await context.last(fault.seconds)
    context.world.start_spu(number)


def kept(chance: Random) -> Keep:
    """Returns how much of its disk a machine keeps when its power fails."""
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
    """Kills the SC between two writes to the store, or before it learns that one is stored."""
    await _kill_sc_in_one_of(STORE_WRITES_MAX, context, fault)


async def kill_sc_as_a_topic_grows(context: FaultContext, fault: Fault) -> None:
    """Kills the SC while it stores that a topic has more partitions, with their replicas and leaders."""
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
    """Keeps an SC from reaching its store."""
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
    """Flips bits of files while their process runs; the process may end meanwhile, and the next one reads them."""
    number, _ = context.spu(fault)
    chance = Random(fault.seed)
    for _ in range(chance.choice((1, 1, 3))):
        if context.may_flip(number):
            flip_at_rest(context.world, number, chance)
    if chance.random() < 0.5:
        await context.last(fault.seconds * chance.random())
        await chance.choice((kill_spu, restart_spu))(context, fault)


async def flip_open_headers(context: FaultContext, fault: Fault) -> None:
    """Flips bits in headers of open files; the process continues, because only it knows what was there."""
    number, _ = context.spu(fault)
    chance = Random(fault.seed)
    until = trio.current_time() + fault.seconds
    while trio.current_time() < until and not context.is_over.is_set():
        if context.may_flip(number) and flip_in_open_header(context.world, number, chance) is not None:
            return
        await context.last(0.01)


async def flip_lone_end(context: FaultContext, fault: Fault) -> None:
    """Kills all followers of what an SPU leads, and flips bits in what only that SPU has, before they come back.

    Chance selects the SPU among those that lead.
    """
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
    """Makes the wall clock jump for good."""
    machines = [*context.world.spus.values(), *context.world.scs.values()]
    machine = machines[fault.target % len(machines)]
    skew_ms = machine.clock.skew_ms + Random(fault.seed).choice((-3_000_000, -5_000, 5_000, 3_000_000))
    # The skew stays below an hour, because brokers rightly refuse records from a later time than that.
    machine.clock.skew_ms = max(-3_100_000, min(skew_ms, 3_100_000))


# network


async def partition(context: FaultContext, fault: Fault) -> None:
    """Isolates one machine from all others."""
    host = _any_host(context, fault)
    others = [each for each in context.world.hosts if each != host]
    await block_between(context, host, others, fault)


async def partition_one_way(context: FaultContext, fault: Fault) -> None:
    """Makes one machine unable to send, or to receive."""
    host = _any_host(context, fault)
    others = [each for each in context.world.hosts if each != host]
    speaks = Random(fault.seed).random() < 0.5
    await block(context, [(each, host) if speaks else (host, each) for each in others], fault)


async def cut_link(context: FaultContext, fault: Fault) -> None:
    """Blocks the link between two machines, in one or both directions."""
    chance = Random(fault.seed)
    one, other = chance.sample(context.world.hosts, 2)
    pairs = [(one, other), (other, one)]
    await block(context, pairs[: chance.randint(1, 2)], fault)


async def freeze(context: FaultContext, fault: Fault) -> None:
    """Stops a process for a while, as SIGSTOP does: it neither receives nor sends, and its disk does not respond.

    Its own timers continue, which is worse than in reality.
    """
    _, machine = context.spu(fault)
    ends = trio.current_time() + fault.seconds
    machine.sync_seconds = lambda: max(ends - trio.current_time(), 0.001)
    host = machine.host
    others = sorted({end for pair in context.world.internet.links for end in pair} - {host})
    await block_between(context, host, others, fault)
    machine.sync_seconds = None


async def partition_from_clients(context: FaultContext, fault: Fault) -> None:
    """Blocks all clients of one machine; the machines still reach each other."""
    _, machine = context.spu(fault)
    await block_between(context, machine.host, clients_of(context), fault)


def clients_of(context: FaultContext) -> list[str]:
    """Returns the client hosts that are known so far."""
    return sorted({end for pair in context.world.internet.links for end in pair} - set(context.world.hosts))


async def block_between(context: FaultContext, host: str, others: Sequence[str], fault: Fault) -> None:
    """Blocks links in both directions."""
    await block(context, [pair for each in others for pair in ((host, each), (each, host))], fault)


async def block(context: FaultContext, pairs: Sequence[tuple[str, str]], fault: Fault) -> None:
    internet = context.world.internet
    for sender, receiver in pairs:
        internet.block(sender, receiver)
    await context.last(fault.seconds)
    for sender, receiver in pairs:
        internet.unblock(sender, receiver)


async def clog(context: FaultContext, fault: Fault) -> None:
    """Delays the traffic of a machine, all of it or to one other machine, as if the machine were slow."""
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
"""Faults by name: their relative frequency, and what they do."""

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
    "kill_sc_as_a_topic_grows": (0, kill_sc_as_a_topic_grows),  # planned only if a topic grows
    "flip_bits": (0, flip_bits),  # planned only if flipped bits are soon repaired
    "flip_bits_while_down": (0, flip_bits_while_down),
    "flip_open_headers": (0, flip_open_headers),
    "flip_lone_end": (0, flip_lone_end),  # planned only if no store acknowledges anything alone
}
"""The faults that any cluster may suffer."""


def plan(
    chance: Random, catalogue: Catalogue, names: Sequence[str], *, count: int, begins: float, ends: float
) -> list[Fault]:
    """Plans faults of these kinds."""
    weights = [catalogue[name][0] for name in names]
    faults = []
    for _ in range(count):
        (kind,) = chance.choices(names, weights)
        at = chance.uniform(begins, ends)
        seconds = chance.choice((0.05, 0.5, 2.0, 4.0)) * chance.uniform(0.5, 1.5)
        faults.append(Fault(at, kind, chance.randrange(1000), seconds, chance.getrandbits(32)))
    return sorted(faults, key=lambda fault: fault.at)


async def carry_out(context: FaultContext, catalogue: Catalogue, faults: Sequence[Fault]) -> None:
    """Carries out the faults, and returns when the last one has ended."""
    async with trio.open_nursery() as nursery:
        for fault in faults:
            with trio.move_on_at(fault.at):
                await context.is_over.wait()
                return
            context.done.append(fault)
            nursery.start_soon(catalogue[fault.kind][1], context, fault)
