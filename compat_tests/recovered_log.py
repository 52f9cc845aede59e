"""Writes a log as recovery leaves it: with a hole of offsets without records, and a bridge to a new epoch.

The log is written by hand while no broker runs, as `docs/formats.md` describes it.
"""

import struct

from clients.batches import build_batch, with_right_crc
from clients.librdkafka import produce
from cluster import Broker
from confluent_kafka import Producer

CONTROL = 0x20
HOLE, BRIDGE = 0x7448, 0x7442
BEFORE = [b"before %d" % number for number in range(5)]
RECOVERED = [b"recovered %d" % number for number in range(3)]
OFFSETS = [0, 1, 2, 3, 4, 25, 26, 27]
END = 29


def make_recovered(broker: Broker, topic: str) -> None:
    """Writes five records, a hole, three records and a bridge to the log of the topic's only partition."""
    produce(Producer({"bootstrap.servers": broker.bootstrap}), topic, BEFORE, partition=0)
    broker.stop()
    (log,) = broker.data.glob(f"**/topics/{topic}/*/0/*.log")
    (mark,) = broker.data.glob("**/clean-shutdown")
    mark.unlink()
    with log.open("ab") as file:
        file.write(recovered_end(len(BEFORE)))
    broker.start()


def recovered_end(base: int) -> bytes:
    """Returns what a recovery writes from this offset on: a hole of 20 offsets, three records, and a bridge."""
    after_hole = base + 20
    end = after_hole + len(RECOVERED)
    return (
        control_batch(HOLE, base, after_hole, struct.pack(">h", 0))
        + _records_at(after_hole, RECOVERED)
        + control_batch(BRIDGE, end, end + 1, struct.pack(">hi", 0, 0))
    )


def control_batch(kind: int, base: int, end: int, value: bytes) -> bytes:
    record = bytes((0, 0, 0, 8)) + struct.pack(">hh", 0, kind) + bytes((len(value) * 2,)) + value + b"\0"
    body = bytes((len(record) * 2,)) + record
    header = struct.pack(
        ">qiibIhiqqqhii", base, 49 + len(body), 0, 2, 0, CONTROL, end - base - 1, -1, -1, -1, -1, -1, 1
    )
    return with_right_crc(header + body)


def _records_at(base: int, values: list[bytes]) -> bytes:
    return struct.pack(">q", base) + build_batch(values)[8:12] + bytes(4) + build_batch(values)[16:]
