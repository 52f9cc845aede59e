"""Replicas of one trigger as processes, the records that they handle, and what was observed of them from outside.

The trigger is configured for three replicas. A fourth one waits as a spare: it takes over when another is gone, and a
replica that comes back becomes the spare.
"""

import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from chaos.offset_watch import OffsetWatch
from chaos.records import Place, RunningProducer, stored
from cluster import Server, tailrace
from node_cluster import Watcher
from spu_cluster import SeparateCluster, cli
from triggers.handled import Commit, Handled, read_handled, violations
from waiting import wait_until

TOPIC, GROUP, SHARDS = "orders", "billing", 12
REPLICAS, WORKERS = 3, 2
NAMES = ("replica1", "replica2", "replica3", "spare")
SESSION_SECONDS, HEARTBEAT_SECONDS, COMMIT_SECONDS, EVENT_SECONDS_MAX = 2.0, 0.4, 0.3, 2.0
PAUSE_SECONDS = 0.02
"""The least pause before a stale member's shards are taken. A lease ends 100 ms earlier, if the machine is not busy."""
RECORDS_AFTER_FAULT = 20
"""How many more records each shard gets after a fault."""
PATIENCE_SECONDS = 60
UNREACHABLE = 3
"""The exit status of a command that cannot reach the SC."""
FUNCTION = Path(__file__).with_name("recording_function.py")
READY = re.compile(r"^ready \S+ of trigger .*$", re.MULTILINE)


class RunningTrigger:
    """A topic of 12 shards, and the replicas that handle it."""

    def __init__(self, cluster: SeparateCluster, directory: Path) -> None:
        self._cluster = cluster
        self._events = directory / "events"
        self._events.mkdir()
        self._servers = {name: Server(directory, name, READY) for name in NAMES}
        self.left: dict[int, float] = {}
        """When each replica was asked to stop, by process id."""
        self._freezes: dict[int, list[tuple[float, float]]] = {}
        Watcher(cluster.bootstrap).create_topic(TOPIC, SHARDS, configs={"min.insync.replicas": 2})
        self._producer = RunningProducer("orders", cluster.bootstrap, [(TOPIC, shard) for shard in range(SHARDS)])
        self.watch = OffsetWatch(cluster.bootstrap.split(","), {GROUP: dict})

    # replicas

    def launch(self, name: str) -> None:
        flags = {
            "topic": TOPIC,
            "group": GROUP,
            "replica": name,
            "replicas": REPLICAS,
            "max-workers": WORKERS,
            "seek-to": "earliest",
            "session-timeout": f"{SESSION_SECONDS}s",
            "heartbeat-interval": f"{HEARTBEAT_SECONDS}s",
            "commit-interval": f"{COMMIT_SECONDS}s",
            "event-timeout": f"{EVENT_SECONDS_MAX}s",
            "env": f"TAILRACE_TEST_EVENTS={self._events}",
            "sc": self._cluster.sc,
        }
        words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
        self._servers[name].launch(tailrace("trigger", "run", str(FUNCTION), *words))

    def keep_running(self) -> None:
        """Starts replicas again that ended, as a supervisor does, because no SC was there when they started."""
        for name, server in self._servers.items():
            if not server.is_running:
                assert server.wait() == UNREACHABLE, f"{name} ended by itself:\n{server.last_output()}"
                self.launch(name)

    def start(self) -> None:
        for name in NAMES:
            self.launch(name)
        wait_until(lambda: len(self.owners()) == REPLICAS, PATIENCE_SECONDS, "three replicas have shards")

    def owners(self) -> dict[str, str]:
        """Returns the shards of each member, as the state object says."""
        status, said = cli(self._cluster.sc, "trigger", "state", TOPIC, "--group", GROUP)
        return {each["member_id"]: each["shards"] for each in json.loads(said)} if status == 0 else {}

    def owner(self, number: int) -> str:
        """Waits until there are three owners, and returns one of them."""
        found: dict[str, str] = {}

        def are_there() -> bool:
            found.clear()
            found.update(self.owners())
            return len(found) == REPLICAS

        wait_until(are_there, PATIENCE_SECONDS, "three replicas have shards")
        return sorted(found)[number % REPLICAS]

    def wait_until_all_are_owned(self, but: str) -> None:
        """Waits until three replicas, without one of them, have all shards."""

        def are_owned() -> bool:
            owners = self.owners()
            return len(owners) == REPLICAS and but not in owners and sum(map(_count, owners.values())) == SHARDS

        wait_until(are_owned, PATIENCE_SECONDS, f"the others have the shards of {but}")

    def losses(self) -> dict[str, int]:
        """Returns how often each replica has given up its shards, because it could not renew its lease."""
        return {name: server.errors().count("shards_lost") for name, server in self._servers.items()}

    def pid(self, name: str) -> int:
        return self._servers[name].pid

    def workers(self, name: str) -> list[int]:
        return [each.pid for each in psutil.Process(self.pid(name)).children()]

    def kill(self, name: str) -> None:
        self._servers[name].kill()

    def kill_worker(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def leave(self, *names: str) -> None:
        """Asks replicas to stop, which must end with status 0."""
        for name in names:
            self._servers[name].wait_until_ready()
            self.left[self.pid(name)] = time.monotonic()
            self._servers[name].signal(signal.SIGTERM)
        for name in names:
            status = self._servers[name].wait()
            assert status == 0, f"{name} ended with status {status}:\n{self._servers[name].last_output()}"

    @contextmanager
    def frozen(self, *pids: int) -> Iterator[None]:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        since = time.monotonic()
        try:
            yield
        finally:
            until = time.monotonic()
            for pid in pids:
                self._freezes.setdefault(pid, []).append((since, until))
                if psutil.pid_exists(pid):
                    os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        self.leave(*NAMES)

    def end(self) -> None:
        """Kills all processes, whatever their state."""
        self._producer.stop()
        self.watch.stop()
        for server in self._servers.values():
            server.kill()

    # records

    def catch_up(self) -> None:
        """Waits for more records in each shard, and until all records that are acknowledged by then are committed."""
        self.keep_running()
        self._producer.wait_for_more(RECORDS_AFTER_FAULT)
        self._wait_until_committed(self._producer.sent().ends())

    def produced(self) -> int:
        return self._producer.acknowledged_count()

    def stop_producing(self) -> dict[int, list[int]]:
        """Stops the producer, waits until all its records are committed, and returns their offsets, by shard."""
        self._producer.stop()
        assert self._producer.errors == []
        sent = self._producer.sent()
        self._wait_until_committed(sent.ends())
        logs = stored(self._cluster.bootstrap, list(sent.counts))
        return {shard: [offset for offset, _ in log] for (_, shard), log in logs.items()}

    def _wait_until_committed(self, ends: Mapping[Place, int]) -> None:
        newest = self.watch.newest[GROUP]
        try:
            wait_until(
                lambda: all(newest.get(place, 0) >= end for place, end in ends.items()),
                PATIENCE_SECONDS,
                "all records are handled and committed",
            )
        except AssertionError as error:
            behind = {place[1]: (newest.get(place, 0), end) for place, end in ends.items()}
            logs = "\n".join(f"{name}:\n{server.last_output()}" for name, server in self._servers.items())
            raise AssertionError(f"{error}: {behind} of {self.owners()}\n{logs}") from None

    # checks

    def handled(self) -> list[Handled]:
        return read_handled(self._events)

    def violations(self, records: Mapping[int, Sequence[int]]) -> list[str]:
        commits = [Commit(place[1], at, offset) for at, _, place, offset in self.watch.rises]
        found = violations(self.handled(), records, commits, self._freezes, self.left, PAUSE_SECONDS)
        return [*found, *self.watch.contradictions]

    def tracebacks(self) -> list[str]:
        return [name for name, server in self._servers.items() if "Traceback" in server.last_output()]

    def leftover_workers(self) -> list[int]:
        """Returns workers that still run."""
        pids = [int(path.stem) for path in self._events.iterdir()]
        return [pid for pid in pids if psutil.pid_exists(pid)]


def _count(shards: str) -> int:
    """Returns how many shards a range such as `0-1,5` has."""
    ends = [each.split("-") for each in shards.split(",") if each]
    return sum(int(each[-1]) - int(each[0]) + 1 for each in ends)
