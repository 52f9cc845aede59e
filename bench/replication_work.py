"""Work of replication while a node is slow or offline: how long consumers wait, and how long writes fail."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka.admin import AdminClient
from fresh_batches import fresh_batch
from measured import SECONDS_MAX, Measured
from raw import PRODUCE, Connection, produce_body, produce_result, request

STOPPED_SECONDS, RUNNING_SECONDS = 0.02, 0.02
ASK_EVERY_SECONDS = 0.01


class Roles(NamedTuple):
    """The node ids of leader and followers of partition 0."""

    leader: int
    followers: tuple[int, ...]


def roles(bootstrap: str, topic: str) -> tuple[Roles, dict[int, str]]:
    """Returns the roles of the nodes, and the address of each node."""
    told = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(topic, timeout=10)
    partition = told.topics[topic].partitions[0]
    followers = tuple(node for node in partition.replicas if node != partition.leader)
    return Roles(partition.leader, followers), {node: f"{each.host}:{each.port}" for node, each in told.brokers.items()}


def process_ids() -> dict[int, int]:
    """Returns the process ids of the nodes, from the command line."""
    return {int(node): int(pid) for node, pid in (each.split(":") for each in sys.argv[4:])}


def with_a_slow_follower(bootstrap: str, topic: str, work: Callable[[], Measured]) -> Measured:
    """Does work while one follower runs only half of the time."""
    slow = roles(bootstrap, topic)[0].followers[0]
    with stopped_half_of_the_time(process_ids()[slow]):
        return work()


@contextmanager
def stopped_half_of_the_time(pid: int) -> Iterator[None]:
    ended = threading.Event()

    def take_turns() -> None:
        while not ended.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            os.kill(pid, signal.SIGCONT)
            ended.wait(RUNNING_SECONDS)

    turns = threading.Thread(target=take_turns)
    turns.start()
    try:
        yield
    finally:
        ended.set()
        turns.join()


def outage(bootstrap: str, topic: str, fill: Callable[[], object]) -> Measured:
    """Kills the leader while one follower lacks everything that `fill` has written.

    Measures how long until the other follower accepts a record, and how long until it commits one, for which the first
    follower must have everything before it.
    """
    who, addresses = roles(bootstrap, topic)
    # Apache Kafka elects the first replica that it has not found offline yet, whatever that replica lacks.
    successor, behind = who.followers
    pids = process_ids()
    os.kill(pids[behind], signal.SIGSTOP)
    try:
        fill()
    finally:
        os.kill(pids[behind], signal.SIGCONT)
        os.kill(pids[who.leader], signal.SIGKILL)
    killed = time.perf_counter()
    await_acknowledgement(addresses[successor], topic, acks=1)
    taken = time.perf_counter()
    await_acknowledgement(addresses[successor], topic, acks=-1)
    committed = time.perf_counter()
    return {"seconds": taken - killed, "recovery_seconds": committed - killed, "node": float(who.leader)}


def await_acknowledgement(address: str, topic: str, acks: int) -> None:
    """Asks one node until it accepts a record."""
    batch = fresh_batch(b"x" * 100)
    connection = Connection(address)
    connection.socket.settimeout(SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        connection.send(
            request(PRODUCE, 3, produce_body(topic, 0, batch, acks=acks, timeout_ms=int(SECONDS_MAX * 1000)))
        )
        if produce_result(connection.receive()[1])[0] == 0:
            connection.socket.close()
            return
        time.sleep(ASK_EVERY_SECONDS)
    raise SystemExit(f"no record was accepted with acks={acks}")
