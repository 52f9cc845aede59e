"""A producer, and groups of stock clients whose members constantly join and leave, with the checks at the end."""

import itertools
import random
import re
import subprocess
import threading
from collections.abc import Sequence
from functools import partial

from chaos.group_history import GroupHistory
from chaos.offset_watch import OffsetWatch
from chaos.records import Place, RunningProducer
from groups.members import Flavour, Member, wait_until_shared
from waiting import wait_until

SESSION_MS = 20_000
"""The members' session timeout.

It is so long that the coordinator never drops a live member. Two owners of one partition are thus always a bug, and
never caused by a client that has not heard of its removal. If a member's request to leave is lost, its session expires.
"""
PATIENCE_SECONDS = 60
GAVE_UP_ERRORS = re.compile("UnknownBrokerIdError|KafkaConnectionError")
"""Errors that kafka-python raises from `poll` if a broker stops at the wrong moment."""
MEMBERS = 2


class RunningGroup:
    """Members of one kind. A new member joins before an old one leaves, so that one of them can always take over."""

    def __init__(self, flavour: Flavour, bootstrap: str, topic: str) -> None:
        self.name = f"group-{flavour}"
        self.history = GroupHistory(self.name)
        self.errors: list[str] = []
        self._flavour = flavour
        self._bootstrap = bootstrap
        self._topic = topic
        self._names = (f"{self.name}-{number}" for number in itertools.count(1))
        self._lock = threading.Lock()
        self.members = [self._start() for _ in range(MEMBERS)]

    def replace_one(self) -> None:
        with self._lock:
            self.members.append(self._start())
            left = self.members.pop(0)
        self._end_member(left)

    def keep_running(self) -> None:
        """Replaces members that gave up after an error, as if they had been told to leave."""
        with self._lock:
            for ended in [member for member in self.members if member.has_ended]:
                self._end_member(ended)
                self.members.remove(ended)
                self.members.append(self._start())

    def stop(self) -> None:
        for member in self.members:
            member.kill()

    def _start(self) -> Member:
        name = next(self._names)
        return Member(
            self._flavour,
            self._bootstrap,
            self.name,
            [self._topic],
            name,
            session_ms=SESSION_MS,
            metadata_ms=1000,
            on_report=partial(self.history.on_report, name),
        )

    def _end_member(self, member: Member) -> None:
        """Ends a member. If it does not leave, it is killed, and the others continue."""
        try:
            member.leave()
        except (OSError, subprocess.TimeoutExpired) as error:
            self.errors.append(f"{member.name}: {error!r}")
            member.kill()
        self.errors += [f"{member.name}: {error}" for error in member.errors if not GAVE_UP_ERRORS.match(error)]


class GroupLoad:
    def __init__(
        self, bootstrap: str, topic: str, partitions: int, flavours: Sequence[Flavour], seed: int, churn_seconds: float
    ) -> None:
        self._places = [(topic, number) for number in range(partitions)]
        self._producer = RunningProducer("producer", bootstrap, self._places)
        self._groups = [RunningGroup(flavour, bootstrap, topic) for flavour in flavours]
        self._watch = OffsetWatch(bootstrap.split(","), {group.name: group.history.floors for group in self._groups})
        self._chance = random.Random(seed)
        self._churn_seconds = churn_seconds
        self._stopping = threading.Event()
        self._churning = threading.Thread(target=self._churn, daemon=True)

    def begin(self) -> None:
        """Starts all groups, and returns when they work; from then on, members join and leave."""
        self._producer.wait_for_more(10)
        for group in self._groups:
            wait_until_shared(group.members, self._places, PATIENCE_SECONDS)
            wait_until(lambda group=group: len(group.history.floors()) == len(self._places), PATIENCE_SECONDS)
        self._churning.start()

    def _churn(self) -> None:
        while not self._stopping.wait(self._churn_seconds):
            self._chance.choice(self._groups).replace_one()
            for group in self._groups:
                group.keep_running()

    def check(self) -> None:
        """Ends the load after the cluster has recovered, and returns everything that is wrong."""
        self._stopping.set()
        self._churning.join()
        self._producer.wait_for_more(20)
        self._producer.stop()
        sent = self._producer.sent()
        ends = sent.ends()
        values = {value.decode() for log in sent.acknowledged.values() for _, value in log}
        for group in self._groups:
            group.keep_running()
            wait_until_shared(group.members, self._places, PATIENCE_SECONDS)
            wait_until(
                lambda group=group: self._is_done(group, ends), PATIENCE_SECONDS, f"{group.name} has read everything"
            )
        self._watch.stop()
        found = [*self._producer.errors, *self._watch.contradictions]
        for group in self._groups:
            found += [*group.errors, *group.history.contradictions, *group.history.overlaps()]
            if unread := values - group.history.values:
                found.append(f"{group.name} has not read {sorted(unread)[:5]} and {len(unread) - 5} more")
        assert not found, "\n".join(found[:10])

    def _is_done(self, group: RunningGroup, ends: dict[Place, int]) -> bool:
        group.keep_running()
        told = self._watch.newest[group.name]
        return all(told.get(place, 0) >= end for place, end in ends.items())

    def __str__(self) -> str:
        lines = [f"{self._producer.acknowledged_count()} records"]
        for group in self._groups:
            history = group.history
            lines.append(
                f"{group.name}: {history.commits} commits, {history.failed_commits} failed,"
                f" {self._watch.answers[group.name]} checks of the committed offsets"
            )
        return "\n".join(lines)

    def stop(self) -> None:
        self._stopping.set()
        self._producer.stop()
        for group in self._groups:
            group.stop()
        self._watch.stop()
