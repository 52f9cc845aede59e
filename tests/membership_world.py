"""Members of one group with clocks of their own, a lossy network between them and the state object, and a judge.

A judge checks after every event that no two processes may handle one shard, and that each owner of a shard has a higher
epoch than all earlier owners.
"""

from collections.abc import Iterator
from enum import Enum, auto
from itertools import count

from stream_states import StateInMemory

from tailrace.cluster.stream_state.stream_state import StreamRead
from tailrace.trigger.membership.member import Member, MembershipConfig, Wait, WaitReason, Write

SESSION_TIMEOUT = 10.0


class Phase(Enum):
    WAITING = auto()
    READING = auto()
    """The request to read is under way."""
    READ = auto()
    """The response to the read is under way."""
    WRITING = auto()
    WRITTEN = auto()


class Process:
    """A process that has one member, with a clock that has its own beginning and rate."""

    def __init__(self, name: str, number: int, replicas: int, started_at: float, clock_rate: float) -> None:
        self.name = name
        config = MembershipConfig(member_id=name, replicas=replicas, session_timeout=SESSION_TIMEOUT)
        self.member = Member(config, f"process {number}")
        self.phase = Phase.WAITING
        self.phase_since = started_at
        self.is_frozen = False
        self.is_dead = False
        self.is_leaving = False
        self.latency = 0.0
        """How long a response takes in `World.run`."""
        self.drains = True
        """Whether shards that are to be released are drained at once."""
        self.known: dict[int, int] = {}
        """The shards and epochs that the judge has seen."""
        self._started_at = started_at
        self._clock_rate = clock_rate
        self.wait = Wait(self.clock(started_at), WaitReason.CHANGED)
        self.read: StreamRead | None = None
        self.write: Write | None = None
        self.sent_at = 0.0
        self.version: int | None = None

    def clock(self, now: float) -> float:
        """What `trio.current_time()` is in this process."""
        return 1000.0 + (now - self._started_at) * self._clock_rate

    def acts_at(self) -> float:
        """When something happens to this process, unless it is frozen."""
        if self.phase is Phase.WAITING:
            return self._started_at + (self.wait.until - 1000.0) / self._clock_rate
        return self.phase_since + (self.latency if self.phase in (Phase.READ, Phase.WRITTEN) else 0.0)

    def handles(self, now: float) -> set[int]:
        """The shards that workers of this process may handle, even if the process is frozen or has been killed."""
        lease = self.member.lease
        return set(self.member.shards) if lease is not None and self.clock(now) < lease.handle_until else set()


class World:
    def __init__(self, shards: int, replicas: int) -> None:
        self.now = 0.0
        self.store = StateInMemory(shards, replicas)
        self.processes: list[Process] = []
        self.late_writes: list[Write] = []
        """Writes whose senders have given up, and which may still arrive."""
        self.wall_ms = 1_769_860_800_000
        self._numbers = count(1)
        self._epochs: dict[int, tuple[int, str]] = {}
        """The last epoch of each shard, and the process that had it."""

    def start(self, name: str, clock_rate: float = 1.0, latency: float = 0.0) -> Process:
        process = Process(name, next(self._numbers), self.store.replicas, self.now, clock_rate)
        process.latency = latency
        self.processes.append(process)
        return process

    @property
    def living(self) -> list[Process]:
        return [each for each in self.processes if not each.is_dead]

    # Time

    def pass_time(self, seconds: float) -> None:
        """Lets time pass without any other event."""
        self.now += seconds
        self.wall_ms += int(seconds * 1000)

    def run(self, seconds: float) -> None:
        """All processes that are not frozen act when they want to, and nothing is lost."""
        until = self.now + seconds
        while True:
            awake = [each for each in self.living if not each.is_frozen and not each.member.has_left]
            next_one = min(awake, key=Process.acts_at, default=None)
            if next_one is None or next_one.acts_at() > until:
                self.pass_time(until - self.now)
                return
            self.pass_time(max(0.0, next_one.acts_at() - self.now))
            self.step(next_one)

    def run_until_heartbeat(self, process: Process) -> None:
        """Runs until a write of the process has succeeded, for some seconds at most."""
        until = self.now + 5.0
        before = process.member.lease
        while self.now < until and process.member.lease == before and not process.is_frozen:
            self.run(0.1)

    # Events

    def step(self, process: Process, fraction: float = 0.5) -> None:
        """The next thing happens to a process: it asks, is served, or gets the response."""
        if process.is_dead or process.is_frozen or process.member.has_left:
            return
        clock = process.clock(self.now)
        match process.phase:
            case Phase.WAITING:
                process.phase = Phase.READING
            case Phase.READING:
                process.read = self.store.read(self.now)
                process.phase = Phase.READ
            case Phase.READ:
                assert process.read is not None
                step = process.member.on_read(clock, self.wall_ms, fraction, process.read)
                if isinstance(step, Write):
                    process.write, process.sent_at = step, clock
                    process.phase = Phase.WRITING
                else:
                    self._wait(process, step)
            case Phase.WRITING:
                assert process.write is not None
                process.version = self.store.write(process.write.state, process.write.expected_version, self.now)
                process.phase = Phase.WRITTEN
            case Phase.WRITTEN if process.version is None:
                self._wait(process, process.member.on_conflict(clock, fraction))
            case Phase.WRITTEN:
                assert process.version is not None
                self._wait(process, process.member.on_written(clock, process.sent_at, process.version, fraction))
        process.phase_since = self.now
        if process.drains:
            self.drain(process)
        self.judge()

    def give_up(self, process: Process, fraction: float = 0.5) -> None:
        """The request or its response is lost, or takes longer than the process waits."""
        if process.phase is Phase.WAITING or process.is_dead or process.is_frozen:
            return
        if process.phase is Phase.WRITING and process.write is not None:
            self.late_writes.append(process.write)
        self._wait(process, process.member.on_unavailable(process.clock(self.now), fraction))
        self.judge()

    def arrive_late(self, number: int) -> None:
        """A write arrives whose sender has given up."""
        if self.late_writes:
            write = self.late_writes.pop(number % len(self.late_writes))
            self.store.write(write.state, write.expected_version, self.now)
            self.judge()

    def drain(self, process: Process) -> None:
        if not process.is_dead and not process.is_frozen:
            for shard in sorted(process.member.releasing):
                process.member.released(shard)
                process.wait = Wait(process.clock(self.now), WaitReason.CHANGED)

    def leave(self, process: Process) -> None:
        if not process.is_dead and not process.is_frozen:
            process.member.on_time(process.clock(self.now))
            process.member.leave()
            process.is_leaving = True
            process.wait = Wait(process.clock(self.now), WaitReason.CHANGED)

    def _wait(self, process: Process, wait: Wait) -> None:
        process.phase = Phase.WAITING
        process.wait = wait

    # What must hold

    def judge(self) -> None:
        owners: dict[int, str] = {}
        for process in self.processes:
            me = process.member.process
            for shard in process.handles(self.now):
                assert shard not in owners, f"{me} and {owners[shard]} may both handle shard {shard} at {self.now}"
                owners[shard] = me
            for shard, epoch in process.member.shards.items():
                if process.known.get(shard) != epoch:
                    last, last_owner = self._epochs.get(shard, (0, me))
                    assert epoch > last, f"{me} handles {shard} with epoch {epoch}, and {last_owner} had {last}"
                    self._epochs[shard] = (epoch, me)
            process.known = dict(process.member.shards)

    def heal(self) -> None:
        """Ends all faults, and checks that every shard is handled and that the shares are fair."""
        for process in self.processes:
            process.is_frozen = False
            process.drains = True
            process.latency = 0.0
        self.late_writes.clear()
        wanted = [f"replica{number}" for number in range(1, self.store.replicas + 1)]
        for process in self.living:
            if process.name not in wanted:
                self.leave(process)
        for name in wanted:
            if not any(each.name == name and not each.is_leaving for each in self.living):
                self.start(name)
        self.run(60.0)
        handled = [shard for each in self._handling() for shard in each.handles(self.now)]
        assert sorted(handled) == list(range(self.store.shards)), self.store.state
        counts = dict.fromkeys(wanted, 0) | {each.name: len(each.member.shards) for each in self._handling()}
        assert counts.keys() == set(wanted), counts
        assert max(counts.values()) - min(counts.values()) <= 1, counts

    def _handling(self) -> Iterator[Process]:
        return (each for each in self.living if each.handles(self.now))
