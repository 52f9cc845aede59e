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
    block,
    clients_of,
    freeze,
    kill_spu,
    kill_spu_in_a_write,
    lose_power,
    lose_power_in_a_write,
    restart_spu,
)
from simulation.faulty_network import SimulatedConnection
from simulation.group_faults import cut_from_spus, cut_off
from simulation.moments import TRANSACTION_MOMENTS

from tailrace.broker.peers.peer_frames import read_body
from tailrace.cluster.coordinators import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from tailrace.protocol.codec.compile import decode
from tailrace.protocol.codec.headers import read_request_header
from tailrace.protocol.internal.introduce_message import IntroduceMessage
from tailrace.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

from .transaction_history import Partition

PRIVATE_PORT = 9006
"""The port on which SPUs replicate."""
WAIT_SECONDS_MAX = 1.0
"""How long a fault waits for a producer to reach its moment; after that, any moment is right."""
STALL_SECONDS_MAX = 3.0
"""How long markers stay in the network."""
SIZE_BYTES = 4
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


async def stall_copies(context: FaultContext, fault: Fault) -> None:
    """Stalls what an SPU sends to its followers, and to one of the other SPUs everything, and kills it soon.

    Some markers arrive, and what was not replicated is lost. Some clients cannot ask again for a while, so that their
    transactions may time out.
    """
    number, machine = context.spu(fault)
    chance, internet = Random(fault.seed), context.world.internet
    other = context.world.spus[chance.choice([each for each in sorted(context.world.spus) if each != number])]
    process = machine.process
    connections = [] if process is None else [each for each in process.network.connections if _replicates(each)]
    internet.block(machine.host, other.host)
    for each in connections:
        each.stall()
    await context.last(chance.choice((0.02, 0.05, 0.3)) * chance.uniform(0.5, 1.5))
    if context.is_over.is_set():
        for each in connections:
            each.resume()
    else:
        for each in connections:
            each.reset()
        context.world.kill(machine)
        share = chance.choice((0.0, 1.0, 1.0))
        clients = [each for each in clients_of(context) if chance.random() < share]
        await block(context, [(client, spu.host) for client in clients for spu in context.world.spus.values()], fault)
    internet.unblock(machine.host, other.host)
    context.world.start_spu(number)


def _replicates(connection: SimulatedConnection) -> bool:
    """Whether a connection is a link for replicas. SPUs send each other requests on others."""
    if connection.is_closed or PRIVATE_PORT not in (connection.local.port, connection.remote.port):
        return False
    dialler = connection if connection.remote.port == PRIVATE_PORT else connection.peer
    frame = memoryview(dialler.first_sent)[SIZE_BYTES:]
    return len(frame) == 0 or not read_body(IntroduceMessage, frame).for_requests


async def stall_markers(context: FaultContext, fault: Fault) -> None:
    """Keeps markers in the network, and kills the coordinator that sent them.

    They are lost, or arrive when the next coordinator has written them, in the middle of the producer's next
    transaction.
    """
    chance = Random(fault.seed)
    sent: tuple[SimulatedConnection, bytes] | None = None
    with trio.move_on_after(WAIT_SECONDS_MAX):
        sent = await context.moments.wait("markers")
    if sent is None or context.is_over.is_set():
        return
    connection, data = sent
    connection.stall()
    (number,) = [each for each, machine in context.world.spus.items() if machine.host == connection.local.host]
    await context.last(chance.choice((0.0, 0.02, 0.1)) * chance.random())
    context.world.kill(context.world.spus[number])
    if chance.random() < 0.4:
        connection.reset()
        await context.last(fault.seconds)
    else:
        marked = _marked(data)
        with trio.move_on_after(STALL_SECONDS_MAX):
            while await context.moments.wait("sent") not in marked:
                pass
        await context.last(chance.choice((0.0, 0.002, 0.01)) * chance.random())
        connection.resume()
        await context.last(fault.seconds * chance.random())
    context.world.start_spu(number)


def _marked(data: bytes) -> set[tuple[int, Partition]]:
    """Returns the producers and the partitions of the markers in a request."""
    _, version, _, _, position = read_request_header(memoryview(data), SIZE_BYTES)
    request = decode(WriteTxnMarkersRequest, version, memoryview(data), position)
    return {
        (marker.producer_id, Partition(topic.name, number))
        for marker in request.markers
        for topic in marker.topics
        for number in topic.partition_indexes
    }


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
    "stall_copies": (3, stall_copies),
}
AT_ENDS = (strand, lose_power, stall_copies)
"""The harms for decisions and markers on their way."""
WEIGHTS = {"transaction_coordinator": 1.0, "offset_keeper": 0.3, "writer": 0.6}


async def harm_a_leader(
    topic: str, harm: Callable[[FaultContext, Fault], Awaitable[None]], context: FaultContext, fault: Fault
) -> None:
    """Harms an SPU that leads a partition of the topic, when a producer reaches some moment."""
    chance = Random(fault.seed)
    with trio.move_on_after(WAIT_SECONDS_MAX):
        await context.moments.wait(chance.choice(ENDS if harm in AT_ENDS else TRANSACTION_MOMENTS))
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
    "stall_markers": (4.0, stall_markers),
    **{
        f"{harm}_{who}": (weight * WEIGHTS[who], partial(harm_a_leader, topic, function))
        for who, topic in TOPICS.items()
        for harm, (weight, function) in HARMS.items()
    },
}
"""The faults that a cluster with transactions may suffer."""
