"""Histories of several members with lost messages, frozen processes, clocks that differ, and restarts."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from membership_world import SESSION_TIMEOUT, Process, World

SOME = st.integers(0, 10)
FRACTIONS = st.sampled_from([0.0, 0.5, 0.99])
LATENCIES = st.sampled_from([0.0, 0.2, 1.9])
RATES = st.sampled_from([0.96, 1.0, 1.04])


class MemberHistories(RuleBasedStateMachine):
    @initialize(shards=st.integers(1, 13), replicas=st.integers(1, 4), rate=RATES, latency=LATENCIES)
    def begin(self, shards: int, replicas: int, rate: float, latency: float) -> None:
        """Begins with one replica more than configured, which waits."""
        self.world = World(shards, replicas)
        self.world.start("replica1", rate, latency)
        for number in range(2, replicas + 2):
            self.world.start(f"replica{number}")

    def _process(self, some: int) -> Process:
        living = self.world.living
        return living[some % len(living)]

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 5.0, 9.0, SESSION_TIMEOUT, 30.0]))
    def run(self, seconds: float) -> None:
        self.world.run(seconds)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 5.0, 9.0, SESSION_TIMEOUT + 0.01]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(some=SOME, steps=st.integers(1, 6), fraction=FRACTIONS)
    def step(self, some: int, steps: int, fraction: float) -> None:
        process = self._process(some)
        for _ in range(steps):
            self.world.step(process, fraction)

    @rule(some=SOME, fraction=FRACTIONS)
    def give_up(self, some: int, fraction: float) -> None:
        self.world.give_up(self._process(some), fraction)

    @rule(seconds=st.sampled_from([10.2, 11.0, 15.0]), some=SOME)
    def cut_off(self, seconds: float, some: int) -> None:
        """Loses all messages of one process from its next heartbeat on, while the others continue."""
        process = self._process(some)
        self.world.run_until_heartbeat(process)
        before, process.is_frozen = process.is_frozen, True
        self.world.run(seconds)
        process.is_frozen = before

    @rule(some=SOME)
    def arrive_late(self, some: int) -> None:
        self.world.arrive_late(some)

    @rule(some=SOME)
    def freeze(self, some: int) -> None:
        self._process(some).is_frozen = True

    @rule(some=SOME, latency=LATENCIES)
    def be_slow(self, some: int, latency: float) -> None:
        self._process(some).latency = latency

    @rule()
    def thaw(self) -> None:
        for process in self.world.living:
            process.is_frozen = False

    @rule(some=SOME, dies=st.booleans(), rate=RATES, latency=LATENCIES)
    def start_anew(self, some: int, dies: bool, rate: float, latency: float) -> None:
        """Replaces a process by another one of its name. The old one may still run, unknown to its supervisor."""
        if len(self.world.processes) < 10:
            old = self._process(some)
            old.is_dead = dies
            self.world.start(old.name, rate, latency)

    @rule(some=SOME)
    def leave(self, some: int) -> None:
        self.world.leave(self._process(some))

    @rule(some=SOME)
    def drain_slowly(self, some: int) -> None:
        process = self._process(some)
        process.drains = not process.drains

    @rule(replicas=st.integers(1, 5))
    def scale(self, replicas: int) -> None:
        self.world.store.replicas = replicas

    @rule()
    def add_a_shard(self) -> None:
        self.world.store.shards += 1

    @rule(milliseconds=st.integers(-100_000, 100_000))
    def set_wall_clock(self, milliseconds: int) -> None:
        self.world.wall_ms += milliseconds

    @rule()
    def restart_sc(self) -> None:
        self.world.store.restart(self.world.now)

    @rule(some=SOME, above=st.integers(0, 30))
    def raise_epoch(self, some: int, above: int) -> None:
        self._process(some).member.raise_epoch(above)

    @invariant()
    def no_two_handle_one_shard(self) -> None:
        if hasattr(self, "world"):
            self.world.judge()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.heal()


TestMemberHistories = MemberHistories.TestCase
TestMemberHistories.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
