"""Members of consumer groups, each in its own process, and conditions on all members of a group."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from waiting import wait_until

PROGRAM, HERE = "groups.member_process", Path(__file__).parents[1]
PATIENCE_SECONDS = 40
OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 50
Place = tuple[str, int]
"""A topic, and the number of a partition."""


class Flavour(Struct, frozen=True):
    """A client and a way of assigning partitions; all members of a group have the same flavour."""

    client: str
    assignor: str

    def __str__(self) -> str:
        return f"{self.client}-{self.assignor}"

    @property
    def is_cooperative(self) -> bool:
        """Whether a member keeps a partition during a rebalance, if it owns that partition before and after it."""
        return self.client == "confluent-consumer" or self.assignor == "cooperative-sticky"


FLAVOURS = [
    Flavour("kafka-python", "range"),
    Flavour("kafka-python", "roundrobin"),
    Flavour("kafka-python", "sticky"),
    Flavour("kafka-python", "cooperative-sticky"),
    Flavour("aiokafka", "range"),
    Flavour("aiokafka", "roundrobin"),
    Flavour("aiokafka", "sticky"),
    Flavour("confluent", "range"),
    Flavour("confluent", "roundrobin"),
    Flavour("confluent", "cooperative-sticky"),
    Flavour("confluent-consumer", "uniform"),
    Flavour("confluent-consumer", "range"),
]
ONE_OF_EACH_CLIENT = [FLAVOURS[0], FLAVOURS[4], FLAVOURS[7], FLAVOURS[10]]


class Member:
    """A member that works from its creation until it leaves or is killed."""

    def __init__(
        self,
        flavour: Flavour,
        bootstrap: str,
        group: str,
        topics: Sequence[str] = (),
        name: str = "member",
        pattern: str | None = None,
        instance: str | None = None,
        session_ms: int = 6000,
        heartbeat_ms: int = 300,
        max_poll_ms: int = 60_000,
        metadata_ms: int = 300_000,
        records_per_poll: int = 500,
        commit: str = "each",
        auto_commit_ms: int = 300,
        on_report: Callable[[dict[str, Any]], None] = lambda told: None,
    ) -> None:
        """Starts the process. It commits after `each` poll, `auto`matically, or `none` at all; `on_report` gets every
        event."""
        role = {
            "client": flavour.client,
            "assignor": flavour.assignor,
            "bootstrap": bootstrap,
            "group": group,
            "topics": list(topics),
            "name": name,
            "pattern": pattern,
            "instance": instance,
            "session_ms": session_ms,
            "heartbeat_ms": heartbeat_ms,
            "max_poll_ms": max_poll_ms,
            "metadata_ms": metadata_ms,
            "records_per_poll": records_per_poll,
            "commit": commit,
            "auto_commit_ms": auto_commit_ms,
        }
        self.name = name
        self._on_told = on_report
        self.assigned: frozenset[Place] = frozenset()
        """The partitions that the member believes to own."""
        self.changes: list[tuple[str, frozenset[Place]]] = []
        """Partitions that were `assigned`, `revoked` or `lost`, in order."""
        self.values: list[str] = []
        self.committed: dict[Place, int] = {}
        """The last committed offset of each partition that was acknowledged."""
        self.errors: list[str] = []
        self.failed_commits: list[str] = []
        self.is_resting = False
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", PROGRAM],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._order(json.dumps(role))

    def rest(self) -> None:
        """Makes the member stop polling; it stays connected."""
        self._order("rest")
        wait_until(lambda: self.is_resting, PATIENCE_SECONDS, f"{self.name} rests")

    def work(self) -> None:
        self.is_resting = False
        self._order("work")

    def leave(self) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        self._read_to_the_end()

    def kill(self) -> None:
        """Kills the process, so that it cannot leave its group."""
        self._process.kill()
        self._process.wait()
        self._read_to_the_end()

    def _read_to_the_end(self) -> None:
        self._reader.join(PATIENCE_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # an order that the process never read
                pipe.close()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_for_values(self, values: Iterable[str]) -> None:
        wanted = set(values)
        wait_until(lambda: wanted <= set(self.values), PATIENCE_SECONDS, f"{self.name} has read the expected values")

    def _order(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self._record(told)
            self._on_told(told)

    def _record(self, told: dict[str, Any]) -> None:
        match told["event"]:
            case "assigned" | "revoked" | "lost" as what:
                some = frozenset((topic, partition) for topic, partition in told["partitions"])
                self.changes.append((what, some))
                self.assigned = self.assigned | some if what == "assigned" else self.assigned - some
            case "records":
                self.values += [value for _, _, _, value in told["records"]]
            case "committed":
                self.committed |= {(topic, partition): offset for topic, partition, offset in told["offsets"]}
            case "commit failed":
                self.failed_commits.append(told["text"])
            case "error":
                self.errors.append(told["text"])
            case "resting":
                self.is_resting = True


def wait_until_shared(members: Sequence[Member], wanted: Iterable[Place], seconds: float = PATIENCE_SECONDS) -> None:
    """Waits until each of these partitions has one owner among the members, and each member owns at least one."""
    places = frozenset(wanted)

    def are_shared() -> bool:
        owned = [member.assigned for member in members]
        return all(owned) and sum(map(len, owned)) == len(places) and frozenset().union(*owned) == places

    try:
        wait_until(are_shared, seconds)
    except AssertionError:
        shown = {member.name: (sorted(member.assigned), member.errors) for member in members}
        raise AssertionError(f"not shared within {seconds} s: {shown}") from None


def wait_until_read(members: Iterable[Member], values: Iterable[str]) -> None:
    """Waits until every value was read by at least one of the members."""
    everybody, wanted = list(members), set(values)

    def missing() -> set[str]:
        return wanted - {value for member in everybody for value in member.values}

    try:
        wait_until(lambda: not missing(), PATIENCE_SECONDS)
    except AssertionError:
        raise AssertionError(f"no member has read {sorted(missing())[:20]} of {len(wanted)}") from None


def partition_of(group: str) -> int:
    """Returns the partition of __consumer_offsets that stores the group: Java's hash of its name."""
    number = 0
    for character in group.encode("ascii"):
        number = (31 * number + character) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >> 31 else number
    return (abs(signed) & 0x7FFFFFFF) % OFFSETS_PARTITIONS
