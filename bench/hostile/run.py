"""Measures a well-behaved client beside each attack: `python bench/hostile/run.py --only huge_array`.

Each attack gets a new broker. The client produces one record every few milliseconds with acks=all, first alone and then
beside the attack. A request is late if the one before it was, so its latency counts from when it was due. Beside the
latencies is the time for which the broker itself ran during one request: the rest is the wait for a core.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from attacks.kinds import ATTACKS, batch
from cluster import Tailrace
from raw import PRODUCE, connect, produce_body, produce_result

INTERVAL_SECONDS = 0.01
RATIO_MAX = 3.0
SETTLING_SECONDS = 1.0
RECORD = bytes.fromhex("0e00000001027800")


class Measured(NamedTuple):
    """The latencies of the client in milliseconds."""

    p50: float
    p99: float
    largest: float
    ran: float
    """The 99th percentile of the time for which the broker ran between a request and its response."""


def running_ms(pid: int) -> float:
    """Returns for how long the main thread of a process has run."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def measure(bootstrap: str, seconds: float, pid: int) -> Measured:
    """Produces at a fixed rate."""
    ran = []
    body = produce_body("neighbour", 0, batch(RECORD, 1), acks=-1)
    latencies = []
    with connect(bootstrap) as connection:
        connection.socket.settimeout(60)
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            ran_before = running_ms(pid)
            error, _ = produce_result(connection.call(PRODUCE, 3, body))
            ran.append(running_ms(pid) - ran_before)
            assert error == 0, f"the client got error {error}"
            latencies.append(1000 * (time.perf_counter() - due))
            due += INTERVAL_SECONDS
    latencies.sort()
    ran.sort()
    last = int(len(latencies) * 0.99)
    return Measured(latencies[len(latencies) // 2], latencies[last], latencies[-1], ran[last])


class Memory:
    """Samples the resident memory of a process."""

    def __init__(self, pid: int) -> None:
        """Begins to sample."""
        self.largest_mb = 0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def now_mb(self) -> int:
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) // 1024

    def _sample(self) -> None:
        while not self._ended.wait(0.05):
            self.largest_mb = max(self.largest_mb, self.now_mb())

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def run(kind: str, seconds: float) -> str:
    """Measures one attack. Returns a row of the table."""
    with tempfile.TemporaryDirectory() as directory:
        broker = Tailrace(Path(directory))
        broker.start()
        try:
            _create_topics(broker.bootstrap)
            measure(broker.bootstrap, 1, broker.pid)
            alone = measure(broker.bootstrap, seconds, broker.pid)
            memory = Memory(broker.pid)
            before_mb = memory.now_mb()
            command = [sys.executable, "-m", "attacks", kind, broker.bootstrap, str(seconds + 2 * SETTLING_SECONDS)]
            attack = subprocess.Popen(command, start_new_session=True)
            with suppress(OSError):
                # An attacker has a machine of its own. Here it gets what the broker and its clients leave.
                Path(f"/proc/{attack.pid}/autogroup").write_text("19")
            try:
                time.sleep(SETTLING_SECONDS)
                beside = measure(broker.bootstrap, seconds, broker.pid)
            finally:
                attack.kill()
                attack.wait()
            time.sleep(SETTLING_SECONDS)
            after_mb = memory.now_mb()
            memory.stop()
            ratio = beside.p99 / alone.p99
            return (
                f"| {kind.replace('_', ' ')} | {alone.p50:.1f} | {alone.p99:.1f} |"
                f" {beside.p50:.1f} | {beside.p99:.1f} |"
                f" {beside.largest:.0f} | {beside.ran:.1f} | {ratio:.1f}×{'' if ratio <= RATIO_MAX else ' **'} |"
                f" {before_mb} | {memory.largest_mb} | {after_mb} |"
            )
        finally:
            broker.kill()


def _create_topics(bootstrap: str) -> None:
    with connect(bootstrap) as connection:
        for topic in ("neighbour", "attacked"):
            body = produce_body(topic, 0, batch(RECORD, 1), acks=-1)
            deadline = time.monotonic() + 10
            while produce_result(connection.call(PRODUCE, 3, body))[0] and time.monotonic() < deadline:
                connection.call(3, 1, b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode())


def main() -> None:
    parser = argparse.ArgumentParser(prog="hostile", description=__doc__)
    parser.add_argument("--only", default="", help="only attacks whose names contain this")
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    beside = "p50 beside | p99 beside | largest | broker ran"
    print(f"| Attack | p50 alone, ms | p99 alone | {beside} | p99 | MB before | most | after |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for kind in ATTACKS:
        if options.only in kind:
            print(run(kind, options.seconds), flush=True)


if __name__ == "__main__":
    main()
