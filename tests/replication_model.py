"""A cluster of stores in memory, one partition, and everything that can go wrong, from a seed.

What is real: all of `broker/replication/`. What is a model: logs (lists, with a part that a power failure takes), the
Streaming Controller (compare-and-set on one record), the network (any message may be lost, repeated, late, out of
order), time, producers. After each step the invariants are asserted; whoever breaks one is named by its seed.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tailrace.broker.replication.entries import Entry, EntryKind, EpochStart
from tailrace.broker.replication.follower import Follower
from tailrace.broker.replication.high_watermark import HighWatermark
from tailrace.broker.replication.leader import Leader, LeaderLimits
from tailrace.broker.replication.live_replicas import LagLimits, LiveReplicas
from tailrace.broker.replication.messages import (
    Append,
    AppendReply,
    Fenced,
    Hello,
    Message,
    ProposeLiveReplicas,
    Seal,
    SealReply,
)
from tailrace.broker.replication.policy import Live, Quorum, ReplicationPolicy
from tailrace.broker.replication.ready import AppendEntries, Cut, EndDoubt, Persist, Restamp, StorePromise
from tailrace.broker.replication.sealing import Promise
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

Content = tuple[int, int, EntryKind, int]
LAG = LagLimits(records_max=12, seconds_max=3.0)
LIMITS = LeaderLimits(append_bytes_max=2, appends_in_flight_max=2, quiet_seconds_max=0.5)


class InvariantError(AssertionError):
    """The sentence says which one."""


def check(holds: bool, sentence: str) -> None:
    if not holds:
        raise InvariantError(sentence)


def content_of(entry: Entry) -> Content:
    return entry.base, entry.end, entry.kind, entry.content


class ListLog:
    def __init__(self, entries: list[Entry] | None = None) -> None:
        self.all: list[Entry] = entries or []

    @property
    def log_start(self) -> int:
        return 0

    @property
    def epochs(self) -> list[EpochStart]:
        return []

    @property
    def log_end(self) -> int:
        return self.all[-1].end if self.all else 0

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        return iter([entry for entry in self.all if entry.end > start and entry.base < end])


@dataclass(frozen=True)
class Spec:
    """What the Streaming Controller has stored, as it tells the stores."""

    leader: SpuId
    incarnation: str
    epoch: Epoch
    live: dict[SpuId, str]
    version: int


@dataclass
class Store:
    spu: SpuId
    # On the disk:
    log: ListLog = field(default_factory=ListLog)
    synced: int = 0
    """How many entries a power failure does not take."""
    promised: Epoch = NO_EPOCH
    doubt: bool = False
    checkpoint: int = 0
    # In the process:
    starts: int = 0
    is_up: bool = False
    role: Leader | Follower | None = None
    promise: Promise = field(default_factory=lambda: Promise(NO_EPOCH))
    high_watermark: HighWatermark = field(default_factory=lambda: HighWatermark(0))
    waiting: list[Entry] = field(default_factory=list)
    checked: int = 0
    """How many entries below the high watermark have been compared with what is committed."""
    # What only the model knows:
    is_damaged: bool = False
    """A power failure took a part of its log, and it has not caught up since."""

    @property
    def incarnation(self) -> str:
        return f"{self.spu}.{self.starts}"


@dataclass(frozen=True)
class Faults:
    """Chances of what happens at a step; what is zero never does."""

    loss: float = 0.05
    repetition: float = 0.05
    disorder: float = 0.3
    kill: float = 0.008
    power: float = 0.008
    clean_stop: float = 0.005
    suspicion: float = 0.01
    """The Streaming Controller elects another leader while the old one goes on."""
    cut: float = 0.01
    """The network between one store and the others fails, or works again."""
    breaks_off: float = 0.01
    """A process dies while it carries something out."""


CALM = Faults(loss=0.01, repetition=0.01, disorder=0.1, kill=0.004, power=0.004, suspicion=0.004, breaks_off=0.002)
WILD = Faults(loss=0.15, repetition=0.2, disorder=0.8, kill=0.015, power=0.015, suspicion=0.02, breaks_off=0.03)


@dataclass
class Bugs:
    """Planted in what the model itself does; those in the core are patched there."""

    cuts_to_high_watermark_at_start: bool = False
    forgets_promise: bool = False
    controller_ignores_incarnations: bool = False
    controller_ignores_versions: bool = False
    election_shrinks_live_set: bool = False


class Cluster:
    def __init__(
        self, seed: int, policy: ReplicationPolicy, *, faults: Faults | None = None, bugs: Bugs | None = None
    ) -> None:
        self.random = random.Random(seed)
        self.policy = policy
        self.faults = faults or self.random.choice((CALM, Faults(), WILD))
        self.bugs = bugs or Bugs()
        self.now = 0.0
        count = policy.stores if isinstance(policy, Quorum) else 3
        self.stores = {SpuId(number): Store(SpuId(number)) for number in range(1, count + 1)}
        self.network: list[tuple[SpuId, str, SpuId, str | None, object]] = []
        """From whom and which process, to whom and which process (none: to whichever is there), what."""
        self.spec = Spec(SpuId(0), "", NO_EPOCH, {}, 0)
        self.registered: dict[SpuId, str] = {}
        self.online: set[SpuId] = set()
        self.log_ends: dict[SpuId, int] = {}
        """As each store said when it registered."""
        self.committed: list[Content] = []
        self.acknowledged: list[Entry] = []
        self.stamped: dict[tuple[int, int], Content] = {}
        self.leaders: dict[int, str] = {}
        self.next_content = 1
        self.origins: dict[int, tuple[Epoch, int]] = {}
        """Of each record: the epoch in which it was produced, and how many records were before it in that epoch."""
        self.produced: Counter[Epoch] = Counter()
        self.came_through: Counter[Epoch] = Counter()
        self.cut_off: SpuId | None = None
        """Neither reaches the other stores, nor is reached."""
        for spu in self.stores:
            self.start(spu)
        self.elect()

    # one step after the other

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.heal()

    def step(self) -> None:
        chance = self.random.random()
        spu = self.random.choice(list(self.stores))
        if chance < 0.5:
            for _ in range(self.random.randint(1, 6)):
                self.deliver()
        elif chance < 0.62:
            for leader in self.stores:
                self.produce(leader)
        elif chance < 0.78:
            self.let_time_pass(self.random.random())
        elif chance < 0.83:
            self.tell(spu)
        elif chance < 0.86:
            self.notice(spu)
        elif chance < 0.9:
            self.sync(spu)
        elif chance < 0.92:
            self.start(spu)
        else:
            self.go_wrong(spu)
        self.check_all()

    def go_wrong(self, spu: SpuId) -> None:
        faults, scale = self.faults, 1 / 0.08
        chance = self.random.random()
        for share, happens in (
            (faults.kill, self.kill),
            (faults.power, self.lose_power),
            (faults.clean_stop, self.stop),
            (faults.suspicion, lambda _: self.elect()),
            (faults.cut, self.cut_or_mend),
        ):
            if chance < share * scale:
                happens(spu)
                return
            chance -= share * scale

    def heal(self) -> None:
        """No more faults: all must come back, agree, and have everything that was acknowledged."""
        self.faults = Faults(0, 0, 0, 0, 0, 0, 0, 0, 0)
        self.cut_off = None
        for spu in self.stores:
            self.start(spu)
        for _ in range(60):
            for spu in self.stores:
                self.notice(spu)
                self.tell(spu)
            self.deliver_all()
            self.let_time_pass(0.3)
            self.check_all()
        leader = self.stores[self.spec.leader]
        check(isinstance(leader.role, Leader) and leader.role.is_serving, "nobody leads when all is well again")
        self.produce(leader.spu)
        for _ in range(8):
            self.deliver_all()
            self.let_time_pass(0.6)
        self.check_all()
        check(not leader.waiting, "what was produced when all was well is not acknowledged")
        contents = [content_of(entry) for entry in leader.log.all]
        for store in self.stores.values():
            check([content_of(entry) for entry in store.log.all] == contents, f"the log of {store.spu} is another one")
            check(store.high_watermark.value == leader.log.log_end, f"{store.spu} does not know that all is committed")
        check(self.spec.live.keys() == self.stores.keys(), "not all are live when all is well again")
        check(
            {content_of(entry) for entry in self.acknowledged} <= set(contents), "something acknowledged has been lost"
        )

    # time and messages

    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds
        for store in self.stores.values():
            if store.role is not None and store.role.deadline <= self.now:
                store.role.on_deadline(self.now)
                self.carry_out(store)

    def deliver(self) -> None:
        if not self.network:
            return
        late = self.random.random() < self.faults.disorder
        index = self.random.randrange(min(len(self.network), 12)) if late else 0
        item = self.network[index]
        if self.random.random() >= self.faults.repetition:
            del self.network[index]
        sender, process, receiver, to_process, message = item
        is_cut = self.cut_off in (sender, receiver) and 0 not in (sender, receiver)
        if is_cut or self.random.random() < self.faults.loss:
            return
        if receiver == 0:
            assert isinstance(message, ProposeLiveReplicas)
            self.on_proposal(sender, process, message)
            return
        store = self.stores[receiver]
        if not store.is_up or (to_process is not None and to_process != store.incarnation):
            return
        if isinstance(message, Spec):
            self.on_spec(store, message)
        else:
            self.on_message(store, message)
        self.carry_out(store)

    def deliver_all(self) -> None:
        for _ in range(3000):
            if not self.network:
                return
            self.deliver()
        raise InvariantError("they talk without an end")

    def on_message(self, store: Store, message: object) -> None:
        role = store.role
        match message:
            case Hello() if isinstance(role, Leader):
                role.on_hello(message, self.now)
            case SealReply() if isinstance(role, Leader):
                role.on_seal_reply(message, self.now)
            case AppendReply() if isinstance(role, Leader):
                role.on_append_reply(message, self.now)
            case Fenced() if isinstance(role, Leader):
                role.on_fenced(message)
            case Seal() if isinstance(role, Follower):
                role.on_seal(message, self.now)
            case Append() if isinstance(role, Follower):
                role.on_append(message, self.now)
            case _:
                pass

    def on_spec(self, store: Store, spec: Spec) -> None:
        role = store.role
        if isinstance(role, Leader) and role.epoch == spec.epoch:
            role.on_live_replicas(spec.epoch, spec.version, spec.live, self.now)
            for spu in self.stores.keys() - self.online:
                role.on_offline(spu, self.now)
            return
        if spec.epoch < store.promise.epoch or (role is not None and spec.epoch <= role.epoch):
            return
        store.waiting.clear()
        if spec.leader != store.spu:
            store.role = Follower(
                store.spu,
                store.incarnation,
                spec.leader,
                spec.epoch,
                log=store.log,
                promise=store.promise,
                high_watermark=store.high_watermark,
                in_doubt=store.doubt,
            )
            store.role.on_linked(self.now)
        elif spec.incarnation == store.incarnation and spec.epoch > store.promise.epoch:
            check(self.leaders.setdefault(spec.epoch, store.incarnation) == store.incarnation, "two lead in one epoch")
            store.role = Leader(
                store.spu,
                spec.epoch,
                self.stores,
                log=store.log,
                promise=store.promise,
                high_watermark=store.high_watermark,
                in_doubt=store.doubt,
                policy=self.policy,
                live_replicas=LiveReplicas(
                    store.spu, spec.epoch, spec.live, spec.version, limits=LAG, retry_seconds=1.0, now=self.now
                ),
                limits=LIMITS,
                now=self.now,
            )

    # what a store's shell does

    def carry_out(self, store: Store) -> None:
        role = store.role
        if role is None:
            return
        ready = role.take_ready()
        breaks_off = self.random.random() < self.faults.breaks_off and bool(ready.persist)
        count = self.random.randrange(len(ready.persist) + 1) if breaks_off else len(ready.persist)
        for effect in ready.persist[:count]:
            self.persist(store, effect)
        if breaks_off:
            self.kill(store.spu)
            return
        for receiver, message in ready.send:
            self.send(store, receiver, message)
        if ready.propose is not None:
            self.network.append((store.spu, store.incarnation, SpuId(0), None, ready.propose))
        if ready.acknowledged_end is not None:
            self.acknowledge(store, ready.acknowledged_end)
        if ready.fenced_by is not None:
            store.role = None
            store.waiting.clear()

    def persist(self, store: Store, effect: Persist) -> None:
        log = store.log
        match effect:
            case StorePromise(epoch):
                check(epoch > store.promised, "a promise has fallen")
                if not self.bugs.forgets_promise:
                    store.promised = epoch
            case EndDoubt():
                store.doubt, store.synced = False, len(log.all)
                if not isinstance(self.policy, Live):
                    store.is_damaged = False
            case Cut(end):
                check(not isinstance(store.role, Leader) or not store.waiting, "a leader that serves cuts its log")
                log.all = [entry for entry in log.all if entry.base < end]
                check(log.log_end <= end, "a cut goes through an entry")
                check(store.checked <= len(log.all), "something committed was cut")
                store.synced = min(store.synced, len(log.all))
            case Restamp(base, end, epoch):
                for index, entry in enumerate(log.all):
                    if base <= entry.base < end:
                        log.all[index] = self.stamp(entry.stamped(epoch))
            case AppendEntries(entries):
                for entry in entries:
                    check(entry.base == log.log_end, "an entry is not where the log ends")
                    log.all.append(self.stamp(entry))

    def stamp(self, entry: Entry) -> Entry:
        content = content_of(entry)
        check(self.stamped.setdefault((entry.epoch, entry.base), content) == content, "an epoch and offset name two")
        return entry

    def send(self, store: Store, receiver: SpuId, message: Message) -> None:
        epoch = message.promised if isinstance(message, Fenced) else message.epoch
        if not isinstance(message, Fenced) and epoch >= store.promise.epoch:
            check(store.promised >= epoch, "a message left before its epoch was on the disk")
        to_process = self.stores[receiver].incarnation if isinstance(store.role, Leader) else None
        self.network.append((store.spu, store.incarnation, receiver, to_process, message))

    def produce(self, spu: SpuId) -> None:
        store = self.stores[spu]
        if not isinstance(store.role, Leader) or not store.role.is_serving:
            return
        for _ in range(self.random.randint(1, 3)):
            end = store.log.log_end + self.random.choice((1, 1, 3))
            entry = Entry(store.log.log_end, end, store.role.epoch, self.next_content)
            self.origins[self.next_content] = store.role.epoch, self.produced[store.role.epoch]
            self.produced[store.role.epoch] += 1
            self.next_content += 1
            store.log.all.append(self.stamp(entry))
            store.waiting.append(entry)
        store.role.on_appended(self.now)
        self.carry_out(store)

    def acknowledge(self, store: Store, end: int) -> None:
        released = [entry for entry in store.waiting if entry.end <= end]
        del store.waiting[: len(released)]
        self.acknowledged.extend(released)
        if released:
            self.check_policy_holds(content_of(released[-1]))

    def sync(self, spu: SpuId) -> None:
        store = self.stores[spu]
        if store.is_up:
            store.synced = len(store.log.all)
            store.checkpoint = store.high_watermark.value

    # what goes wrong

    def kill(self, spu: SpuId) -> None:
        store = self.stores[spu]
        store.is_up, store.role = False, None
        store.waiting.clear()
        store.doubt = True

    def lose_power(self, spu: SpuId) -> None:
        """Only while somebody else has what this one may lose: more than that, no policy promises."""
        store = self.stores[spu]
        if not store.is_up:
            return
        damaged = {other for other, its in self.stores.items() if its.is_damaged or other == spu}
        if isinstance(self.policy, Quorum):
            if len(damaged) >= self.policy.writes:
                return
        elif self.spec.live.keys() <= damaged:
            return
        self.kill(spu)
        store.is_damaged = True
        store.log.all = store.log.all[: self.random.randint(store.synced, len(store.log.all))]
        self.network = [item for item in self.network if not (item[0] == spu and item[2] == 0)]

    def cut_or_mend(self, spu: SpuId) -> None:
        self.cut_off = spu if self.cut_off is None else None

    def stop(self, spu: SpuId) -> None:
        store = self.stores[spu]
        if store.is_up:
            self.sync(spu)
            was_in_doubt = store.doubt
            self.kill(spu)
            store.doubt = was_in_doubt

    def start(self, spu: SpuId) -> None:
        store = self.stores[spu]
        if store.is_up:
            return
        store.is_up = True
        store.starts += 1
        store.promise = Promise(store.promised)
        store.high_watermark = HighWatermark(min(store.checkpoint, store.log.log_end))
        store.synced = len(store.log.all)
        store.checked = 0
        if self.bugs.cuts_to_high_watermark_at_start:
            store.log.all = [entry for entry in store.log.all if entry.base < store.high_watermark.value]
        self.register(spu)

    # the Streaming Controller

    def register(self, spu: SpuId) -> None:
        """After a clean stop, the new process has what the old one had."""
        store = self.stores[spu]
        before = self.registered.get(spu)
        self.registered[spu] = store.incarnation
        self.online.add(spu)
        self.log_ends[spu] = store.log.log_end
        if not store.doubt and before is not None and self.spec.live.get(spu) == before:
            self.store_live({**self.spec.live, spu: store.incarnation})
        if self.spec.leader in (spu, 0):
            self.elect()

    def store_live(self, live: dict[SpuId, str]) -> None:
        self.spec = Spec(self.spec.leader, self.spec.incarnation, self.spec.epoch, live, self.spec.version + 1)

    def notice(self, spu: SpuId) -> None:
        if self.stores[spu].is_up:
            self.online.add(spu)
        else:
            self.online.discard(spu)
        leader = self.spec.leader
        if leader not in self.online or self.registered.get(leader) != self.spec.incarnation:
            self.elect()

    def elect(self) -> None:
        candidates = self.candidates()
        if not candidates:
            return
        leader = self.random.choice(candidates)
        live = dict(self.spec.live) or {leader: ""}
        if self.bugs.election_shrinks_live_set:
            live = {spu: process for spu, process in live.items() if spu in self.online}
        live[leader] = self.registered[leader]
        self.spec = Spec(leader, live[leader], Epoch(self.spec.epoch + 1), live, self.spec.version + 1)
        for spu in self.stores:
            self.tell(spu)

    def candidates(self) -> list[SpuId]:
        live = self.spec.live
        if not live or not isinstance(self.policy, Live):
            return sorted(self.online)
        sure = [spu for spu, process in live.items() if spu in self.online and self.registered[spu] == process]
        if self.bugs.controller_ignores_incarnations:
            sure = [spu for spu in live if spu in self.online]
        if sure:
            return sure
        if live.keys() <= self.online and all(self.registered[spu] != live[spu] for spu in live):
            return [max(live, key=lambda spu: self.log_ends[spu])]
        return []

    def tell(self, spu: SpuId) -> None:
        self.network.append((SpuId(0), "", spu, self.registered.get(spu), self.spec))

    def on_proposal(self, sender: SpuId, process: str, proposal: ProposeLiveReplicas) -> None:
        spec = self.spec
        members = dict(proposal.members)
        entering = {spu: name for spu, name in members.items() if name}
        is_current = (
            proposal.epoch == spec.epoch
            and (proposal.version == spec.version or self.bugs.controller_ignores_versions)
            and sender == spec.leader
            and process == spec.incarnation == self.registered[sender]
            and all(name or spu in spec.live for spu, name in members.items())
        )
        if is_current:
            is_known = all(self.registered.get(spu) == name for spu, name in entering.items())
            if is_known or self.bugs.controller_ignores_incarnations:
                self.store_live({spu: name or spec.live[spu] for spu, name in members.items()})
            else:
                self.store_live(spec.live)  # so that the leader may give this proposal up
                entering = {}
            for spu, name in entering.items():
                store = self.stores[spu]
                if store.is_up and name == store.incarnation and isinstance(self.policy, Live):
                    store.is_damaged = False
        self.tell(sender)

    # invariants

    def check_all(self) -> None:
        check(self.spec.live.keys() <= self.stores.keys(), "somebody is live that holds nothing")
        for store in self.stores.values():
            if store.is_up:
                self.check_committed(store)
        role = self.stores[self.spec.leader].role if self.spec.leader else None
        if isinstance(role, Leader) and role.epoch == self.spec.epoch and role.is_serving:
            self.check_holds_acknowledged(self.stores[self.spec.leader])

    def check_committed(self, store: Store) -> None:
        """Below the high watermark there is one log, whoever holds it; producers' acknowledgements lie in it."""
        end = store.high_watermark.value
        check(end <= store.log.log_end, "a high watermark lies beyond its log")
        entries = store.log.all
        while store.checked < len(entries) and entries[store.checked].end <= end:
            content = content_of(entries[store.checked])
            if store.checked == len(self.committed):
                self.committed.append(content)
                self.check_order(entries[store.checked])
            check(self.committed[store.checked] == content, "two logs differ below the high watermark")
            store.checked += 1

    def check_order(self, entry: Entry) -> None:
        """What comes through of an epoch is a beginning of it: no record without those before it."""
        if entry.kind is EntryKind.EVENT:
            epoch, place = self.origins[entry.content]
            check(place == self.came_through[epoch], "a record came through without one before it")
            self.came_through[epoch] += 1

    def check_holds_acknowledged(self, store: Store) -> None:
        """A leader that serves has all that was ever acknowledged, each where it was."""
        entries = {entry.base: entry for entry in store.log.all}
        for entry in self.acknowledged:
            mine = entries.get(entry.base)
            check(mine is not None and mine.same_as(entry), "a leader lacks something that was acknowledged")

    def check_policy_holds(self, content: Content) -> None:
        holders = {
            spu
            for spu, store in self.stores.items()
            if store.is_damaged or any(content_of(entry) == content for entry in store.log.all)
        }
        if isinstance(self.policy, Quorum):
            check(len(holders) >= self.policy.writes, "acknowledged by too few")
        else:
            check(self.spec.live.keys() <= holders, "acknowledged, and a live replica does not have it")


def run(seed: int, policy: ReplicationPolicy, *, steps: int = 300, bugs: Bugs | None = None) -> Cluster:
    cluster = Cluster(seed, policy, bugs=bugs)
    try:
        cluster.run(steps)
    except AssertionError as error:
        raise InvariantError(f"seed {seed}, {policy}: {error}") from error
    return cluster
