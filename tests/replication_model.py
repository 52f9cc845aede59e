"""A cluster of stores in memory, one partition, and everything that can go wrong, from a seed.

What is real: all of `broker/replication/`. What is a model: logs (lists, with a part that a power failure takes), the
Streaming Controller (compare-and-set on one record), the network (any message may be lost, repeated, late, out of
order), time, producers. After each step the invariants are asserted; the seed of a violation is shown.
"""

import math
import random

from msgspec import Struct
from msgspec.structs import replace
from replication_moves import Moves, Row, moved, other_row
from replication_reader import QuorumReader
from replication_store import InvariantError, Store, check, content_of
from replication_truth import Truth

from tailrace.broker.replication.copying import CopyLimits, CopyRequest, CopyResponse
from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.follower import Follower
from tailrace.broker.replication.leader import Leader, LeaderLimits
from tailrace.broker.replication.live_replica_tracker import LagLimits, LiveReplicaTracker
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
from tailrace.broker.replication.policy import LivePolicy, QuorumPolicy, ReplicationPolicy
from tailrace.broker.replication.ready import (
    AdvanceLogStart,
    AppendEntries,
    EndDoubt,
    ExpectStamped,
    Persist,
    Restamp,
    StorePromise,
    Sync,
    Truncate,
)
from tailrace.controller.objects.objects import PartitionSpec
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

LAG = LagLimits(records_max=12, seconds_max=3.0)
LIMITS = LeaderLimits(
    append_bytes_max=2,
    appends_in_flight_max=2,
    first_appends_max=2,
    resend_seconds=0.5,
    recovered_bytes_max=2,
    recovered_entries_max=2,
)
COPIES = CopyLimits(lacking_bytes_min=3, portion_bytes_max=3)
CONTROLLER = SpuId(0)

Link = tuple[SpuId, SpuId]
"""A follower and its leader: the follower dials the connection between the two."""


class Spec(Struct, frozen=True):
    """What the Streaming Controller has stored, as it tells the stores."""

    leader: SpuId
    process: str
    epoch: Epoch
    live: dict[SpuId, str]
    version: int
    layout: PartitionSpec
    """The replicas and copy sets of the partition."""


class Item(Struct, frozen=True):
    """A message on its way."""

    sender: SpuId
    process: str
    receiver: SpuId
    message: object
    link: Link | None = None
    link_number: int = 0


class Faults(Struct, frozen=True):
    """The probability of each fault at a step."""

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
    link: float = 0.01
    """The connection between two stores breaks; they connect again."""


CALM = Faults(0.01, 0.01, 0.1, kill=0.004, power=0.004, suspicion=0.004, breaks_off=0.002, link=0.003)
WILD = Faults(0.15, 0.2, 0.8, kill=0.015, power=0.015, suspicion=0.02, breaks_off=0.03, link=0.02)
NONE = Faults(*[0.0] * 10)


class Bugs(Struct):
    """Bugs that can be planted in the model itself. Those in the core are patched there."""

    cuts_to_high_watermark_at_start: bool = False
    forgets_promise: bool = False
    controller_ignores_incarnations: bool = False
    controller_ignores_versions: bool = False
    election_shrinks_live_set: bool = False
    kill_ends_doubt: bool = False
    sync_is_skipped: bool = False


class World(Struct, frozen=True):
    """The properties of a world, which do not change."""

    policy: ReplicationPolicy
    syncs: bool = False
    """Whether records are synced before they are acknowledged, so that all stores may lose power."""
    unclean: bool = False
    """Whether a leader that lacks committed records may be elected."""
    compacts: bool = False
    """Whether committed entries are compacted repeatedly."""
    moves: Moves | None = None
    hesitates: bool = False
    """Whether the Streaming Controller delays elections, so that there is no leader meanwhile."""
    faults: Faults | None = None
    """The faults, if the seed does not choose them."""
    copies: bool = False
    """Whether a replica that lacks many entries copies them from other followers."""


class Cluster:
    def __init__(self, seed: int, world: World, *, faults: Faults | None = None, bugs: Bugs | None = None) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.policy = policy = world.policy
        self.faults = faults or world.faults or self.random.choice((CALM, Faults(), WILD))
        self.bugs = bugs or Bugs()
        self.now = 0.0
        self.truth = Truth()
        self.moves = world.moves
        count = policy.stores if isinstance(policy, QuorumPolicy) else 3
        count = self.moves.stores if self.moves is not None else count
        self.stores = {SpuId(number): Store(SpuId(number)) for number in range(1, count + 1)}
        self.network: list[Item] = []
        self.links: dict[Link, int] = {}
        """The connections that are up, each with its number."""
        self.links_made = 0
        self.lost: list[Link] = []
        """Connections that are broken, which their stores have not noticed yet."""
        self.copied = 0
        """The number of entries copied from other followers."""
        self.cut_off: SpuId | None = None
        """The store that reaches no other store, and is not reached."""
        # The Streaming Controller:
        self.wanted: Row = tuple(self.stores) if self.moves is None else self.moves.row(self.random)
        """The replicas that the partition should have."""
        self.spec = Spec(CONTROLLER, "", NO_EPOCH, {}, 0, PartitionSpec(self.wanted[0], self.wanted))
        self.has_reported = self.has_taken_over = False
        """What the leader has done in its epoch."""
        self.layouts: dict[Epoch, PartitionSpec] = {}
        self.registered: dict[SpuId, tuple[str, str]] = {}
        """The process and the store incarnation of each registered SPU."""
        self.online: set[SpuId] = set()
        self.leaders: dict[int, str] = {}
        self.known: dict[SpuId, Spec] = {}
        """The last spec that each store has received."""
        self.reader = None if world.unclean else QuorumReader(seed, self)
        present = self.random.sample(list(self.wanted), self.random.randint(1, len(self.wanted)))
        for spu in present:
            self.start(spu)
        self.elect()
        for spu in self.stores:
            self.start(spu)

    # one step after the other

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.heal()

    def step(self) -> None:
        if self.moves is not None and self.random.random() < 0.1:
            self.move()
        chance = self.random.random()
        spu = self.random.choice(list(self.stores))
        if chance < 0.48:
            for _ in range(self.random.randint(1, 6)):
                self.deliver()
        elif chance < 0.6:
            for leader in self.stores:
                self.produce(leader)
        elif chance < 0.75:
            self.let_time_pass(self.random.random())
        elif chance < 0.8:
            self.tell(spu)
        elif chance < 0.83:
            self.notice(spu)
        elif chance < 0.87:
            self.sync(spu)
        elif chance < (0.9 if self.world.compacts else 0.91):
            self.start(spu)
        elif chance < 0.92:
            self.random.choice((self.delete, self.compact))(spu)
            for each in self.stores if self.world.compacts else ():
                self.compact(each)
        else:
            self.go_wrong(spu)
        self.check_all()
        if self.reader is not None:
            self.reader.step()

    def go_wrong(self, spu: SpuId) -> None:
        faults, scale = self.faults, 1 / 0.08
        chance = self.random.random()
        for share, happens in (
            (faults.kill, self.kill),
            (faults.power, self.lose_power),
            (faults.clean_stop, self.stop),
            (faults.suspicion, self.suspect),
            (faults.cut, self.cut_or_mend),
            (faults.link, self.break_links),
        ):
            if chance < share * scale:
                happens(spu)
                return
            chance -= share * scale

    def heal(self) -> None:
        """Stops all faults. All stores must then return, agree, have every acknowledged record, and come to rest."""
        self.faults = NONE
        self.cut_off = None
        gone = self.gone_for_good()
        for _ in range(60):
            if self.moves is not None:
                self.advance_move()
            for spu in self.stores:
                if spu not in gone:
                    self.start(spu)
                self.notice(spu)
                self.tell(spu)
                self.connect(spu)
            self.deliver_all()
            self.let_time_pass(0.3)
            self.check_all()
        leader = self.stores[self.spec.leader]
        check(isinstance(leader.role, Leader) and leader.role.is_serving, "nobody leads when all is well again")
        if self.random.random() < 0.5:
            self.produce(leader.spu)
        for _ in range(8):
            self.sync(leader.spu)
            self.deliver_all()
            self.let_time_pass(0.6)
        self.check_all()
        check(not leader.waiting, "what was produced when all was well is not acknowledged")
        check(self.spec.layout == PartitionSpec(self.wanted[0], self.wanted), "it does not have the replicas asked for")
        for store in map(self.stores.__getitem__, self.wanted):
            self.truth.check_is_whole(store)
            check(store.high_watermark.value == leader.log.log_end, f"{store.spu} does not know that all is committed")
            starts = sorted((store.log.log_start, leader.log.log_start))
            is_same = starts[0] == starts[1] or (self.world.unclean and not any(leader.log.entries(*starts)))
            check(is_same, f"{store.spu} starts elsewhere than the leader")
            check(
                store.role is not None and store.role.deadline == math.inf, "something is to be done when all is done"
            )
        check(self.spec.live == {spu: self.stores[spu].incarnation for spu in self.wanted}, "not all are live")
        self.truth.check_holds_acknowledged(leader)
        if self.reader is not None:
            self.reader.check_final()

    # time and messages

    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds
        for link in self.lost[:]:
            if self.random.random() < 0.7:
                self.notice_loss(link)
        if self.cut_off is not None and self.random.random() < 0.3:
            self.break_links(self.cut_off)
        for spu in self.stores:
            if self.random.random() < 0.5:
                self.connect(spu)
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
        is_gone = item.link is not None and self.links.get(item.link) != item.link_number
        is_cut = item.link is not None and self.cut_off in item.link
        is_lost = is_gone or is_cut or self.random.random() < self.faults.loss
        if isinstance(item.message, CopyRequest):
            self.hand_over(item, item.message, is_lost=is_lost or self.cut_off in (item.sender, item.receiver))
            return
        if isinstance(item.message, CopyResponse):
            self.on_copied(item, item.message, is_lost=is_lost or self.cut_off in (item.sender, item.receiver))
            return
        if is_lost:
            return
        if isinstance(item.message, ProposeLiveReplicas):
            self.on_proposal(item.sender, item.process, item.message)
            return
        store = self.stores[item.receiver]
        if not store.is_up:
            return
        if isinstance(item.message, Spec):
            self.on_spec(store, item.message)
        else:
            self.on_message(store, item.message)
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
                role.on_seal(message)
            case Append() if isinstance(role, Follower):
                role.on_append(message)
            case _:
                pass

    def hand_over(self, item: Item, asked: CopyRequest, *, is_lost: bool) -> None:
        """Serves a bulk copy like a consumer's fetch: committed entries, and the high watermark."""
        store = self.stores[item.receiver]
        end = store.high_watermark.value
        copied = CopyResponse(asked, failure="nothing was heard")
        if not is_lost and store.is_up and store.log.log_start <= asked.offset <= store.log.log_end:
            held = [entry for entry in store.log.entries(asked.offset, end) if entry.end <= end]
            copied = CopyResponse(asked, tuple(held[: asked.bytes_max]), end)
        self.network.append(Item(item.receiver, item.process, item.sender, copied))

    def on_copied(self, item: Item, copied: CopyResponse, *, is_lost: bool) -> None:
        store = self.stores[item.receiver]
        if store.is_up and store.process == item.process and isinstance(store.role, Follower):
            before = store.role.matched_end
            store.role.on_copied(CopyResponse(copied.request, failure="nothing was heard") if is_lost else copied)
            self.copied += store.role.matched_end > before
            self.carry_out(store)

    def on_spec(self, store: Store, spec: Spec) -> None:
        role = store.role
        known = self.known.get(store.spu, spec)
        if (spec.epoch, spec.version) >= (known.epoch, known.version):
            self.known[store.spu] = spec
        if spec.leader == CONTROLLER:
            return
        if isinstance(role, Leader) and role.epoch == spec.epoch:
            role.on_live_replicas(spec.epoch, spec.version, spec.live, self.now)
            for spu in self.stores.keys() - self.online:
                role.on_offline(spu, self.now)
            return
        if isinstance(role, Follower) and role.epoch == spec.epoch and role.leader == spec.leader:
            role.use_policy(self.policy_of(spec), spec.epoch, self._copy_limits())
            return
        if spec.epoch < store.promise.epoch or (role is not None and spec.epoch <= role.epoch):
            return
        store.waiting.clear()
        if store.spu not in spec.layout.replicas:
            store.role = None
            return
        if self.moves is not None and store.promised == NO_EPOCH and spec.live.get(store.spu) != store.incarnation:
            store.doubt = True  # it may have lost its disk
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
                policy=self.policy_of(spec),
                syncs_before_acknowledging=self.world.syncs,
                copy_limits=self._copy_limits(),
                turn=self.random.randrange(3) if self.world.copies else 0,
            )
            if (store.spu, spec.leader) in self.links:
                store.role.on_linked(self.now)
        elif spec.process == store.process and spec.epoch > store.promise.epoch:
            check(self.leaders.setdefault(spec.epoch, store.process) == store.process, "two lead in one epoch")
            if spec.epoch >= self.truth.unclean_epoch:
                self.truth.on_led(store)
                store.is_outdated = False
            store.role = Leader(
                store.spu,
                spec.epoch,
                spec.layout.replicas,
                log=store.log,
                promise=store.promise,
                high_watermark=store.high_watermark,
                in_doubt=store.doubt,
                policy=self.policy_of(spec),
                live_replicas=LiveReplicaTracker(
                    store.spu,
                    store.incarnation,
                    spec.epoch,
                    spec.live,
                    spec.version,
                    members_min=self.policy.replicas_min,
                    limits=LAG,
                    retry_seconds=1.0,
                    now=self.now,
                ),
                limits=replace(LIMITS, first_appends_max=1) if self.world.copies else LIMITS,
                syncs_before_acknowledging=self.world.syncs,
                was_unclean=self.truth.unclean_epoch >= 0,
                now=self.now,
            )

    def _copy_limits(self) -> CopyLimits | None:
        return COPIES if self.world.copies and self.truth.unclean_epoch < 0 else None

    def policy_of(self, spec: Spec) -> ReplicationPolicy:
        return self.policy if self.moves is None else self.moves.policy_of(spec.layout)

    # connections

    def connect(self, spu: SpuId) -> None:
        store = self.stores[spu]
        if not isinstance(store.role, Follower):
            return
        link = spu, store.role.leader
        if link in self.links or self.cut_off in link or not self.stores[link[1]].is_up:
            return
        if link in self.lost:
            self.notice_loss(link)
        self.links_made += 1
        self.links[link] = self.links_made
        store.role.on_linked(self.now)
        self.carry_out(store)

    def break_links(self, spu: SpuId) -> None:
        for link in list(self.links):
            if spu in link:
                del self.links[link]
                self.lost.append(link)

    def notice_loss(self, link: Link) -> None:
        self.lost.remove(link)
        follower, leader = (self.stores[spu] for spu in link)
        if isinstance(follower.role, Follower) and follower.role.leader == leader.spu:
            follower.role.on_link_lost()
        if isinstance(leader.role, Leader):
            leader.role.on_link_lost(follower.spu, self.now)
            self.carry_out(leader)

    # what a store's shell does

    def carry_out(self, store: Store) -> None:
        role = store.role
        if role is None:
            return
        ready = role.take_ready()
        breaks_off = self.random.random() < self.faults.breaks_off and bool(ready.persist)
        if breaks_off and self.gives_up_recovery(store, ready.persist):
            return
        count = self.random.randrange(len(ready.persist) + 1) if breaks_off else len(ready.persist)
        for effect in ready.persist[:count]:
            self.persist(store, effect)
        if breaks_off:
            self.kill(store.spu)
            return
        for receiver, message in ready.send:
            self.send(store, receiver, message)
        if ready.copy_request is not None:
            self.network.append(Item(store.spu, store.process, ready.copy_request.source, ready.copy_request))
        if ready.propose is not None:
            self.network.append(Item(store.spu, store.process, CONTROLLER, ready.propose))
        if isinstance(role, Leader) and ready.fenced_by is None:
            self.acknowledge(store, role.high_watermark)
        if ready.delete_to is not None:
            self.delete_to(store, ready.delete_to)
        if isinstance(role, Leader) and role.epoch >= self.truth.unclean_epoch and not role.is_over:
            self.truth.on_deleted_for_good(role.deleted_end)
        if ready.fenced_by is not None:
            store.role = None
            store.waiting.clear()

    def gives_up_recovery(self, store: Store, effects: list[Persist]) -> bool:
        """Lets the source of a recovering leader fail before it has sent everything; returns whether it did fail."""
        role, held = store.role, set(map(content_of, store.log.all))
        if not isinstance(role, Leader) or StorePromise(role.epoch) in effects:
            return False
        lacking: list[tuple[int, Entry]] = []
        done = 0
        for count, effect in enumerate(effects, 1):
            if isinstance(effect, AppendEntries):
                produced = (each for each in effect.entries if each.kind not in (EntryKind.HOLE, EntryKind.BRIDGE))
                lacking += [(done, each) for each in produced if content_of(each) not in held][:1]
                done = count
        if not lacking:
            return False
        done, entry = self.random.choice(lacking)
        holders = role.holders_of(entry)
        check(bool(holders), "nobody has what the leader recovers")
        for effect in effects[:done]:
            self.persist(store, effect)
        role.on_recovery_failed(self.random.choice(holders), self.now)
        return True

    def persist(self, store: Store, effect: Persist) -> None:
        log = store.log
        match effect:
            case StorePromise(epoch):
                check(epoch > store.promised, "a promise has fallen")
                if not self.bugs.forgets_promise:
                    store.promised = epoch
            case EndDoubt():
                store.doubt = False
                store.sync()
                if not isinstance(self.policy, LivePolicy):
                    store.is_damaged = False
            case Sync():
                if not self.bugs.sync_is_skipped:
                    store.sync()
            case ExpectStamped(end, epochs):
                assert store.role is not None
                log.expect_stamped(end, store.role.epoch, epochs)
            case AdvanceLogStart(offset):
                log.advance_log_start(offset)
                if not store.is_outdated:
                    self.truth.on_deleted(offset)
            case Truncate(end):
                check(not isinstance(store.role, Leader) or not store.waiting, "a leader that serves cuts its log")
                is_held = any(end < each.end <= store.checked_end for each in log.all)
                check(not is_held or self.world.unclean, "something committed was cut")
                is_clear = all(entry.base >= end for entry in log.entries(end, end + 1))
                check(is_clear or self.world.unclean, "a cut goes through an entry")
                if end < store.checkpoint.value:
                    store.checkpoint = store.checkpoint._replace(value=end)
                store.checked_end = min(store.checked_end, end)
                log.cut(end)
            case Restamp(base, end, epoch):
                log.stamped_end = max(log.stamped_end, min(end, log.log_end))
                for index, entry in enumerate(log.all):
                    if base <= entry.base < end:
                        log.all[index] = entry.stamped(epoch)
                        self.truth.on_stamped(log.all[index])
            case AppendEntries(entries):
                for entry in entries:
                    log.append(entry)
                    self.truth.on_stamped(entry)

    def send(self, store: Store, receiver: SpuId, message: Message) -> None:
        epoch = message.promised if isinstance(message, Fenced) else message.epoch
        if not isinstance(message, Fenced) and epoch >= store.promise.epoch:
            check(store.promised >= epoch, "a message left before its epoch was on the disk")
        link = (receiver, store.spu) if isinstance(store.role, Leader) else (store.spu, receiver)
        if link in self.links:
            self.network.append(Item(store.spu, store.process, receiver, message, link, self.links[link]))

    def produce(self, spu: SpuId) -> None:
        store = self.stores[spu]
        role = store.role
        if not isinstance(role, Leader) or not role.is_serving or role.is_stopping:
            return
        for _ in range(self.random.randint(1, 3)):
            base = store.log.log_end
            entry = self.truth.next_entry(base, base + self.random.choice((1, 1, 3)), role.epoch)
            self.truth.on_stamped(entry)
            store.log.append(entry)
            store.waiting.append(entry)
        role.on_appended(self.now)
        self.carry_out(store)

    def acknowledge(self, store: Store, end: int) -> None:
        released = [entry for entry in store.waiting if entry.end <= end]
        del store.waiting[: len(released)]
        assert isinstance(store.role, Leader)
        self.truth.on_acknowledged(released, store.role.epoch)
        if released and store.role.epoch >= self.truth.unclean_epoch:
            self.check_policy_holds(released[-1], store.role.epoch)

    def sync(self, spu: SpuId) -> None:
        store = self.stores[spu]
        if store.is_up:
            store.sync()
            store.write_down_high_watermark()
            if isinstance(store.role, Leader) and store.role.is_serving:
                store.role.on_synced(store.log.log_end, self.now)
                self.carry_out(store)

    def delete(self, spu: SpuId) -> None:
        """Deletes committed records, by retention or DeleteRecords, on any leader."""
        for store in [self.stores[spu], *self.stores.values()]:
            role, start, end = store.role, store.log.log_start, store.high_watermark.value
            if isinstance(role, Leader) and role.is_serving and end > start:
                self.delete_to(store, self.random.randint(start, end))
                self.carry_out(store)
                return

    def delete_to(self, store: Store, offset: int) -> None:
        assert isinstance(store.role, Leader)
        if offset > store.log.log_start:
            store.log.advance_log_start(offset)
            if not store.is_outdated:
                self.truth.on_deleted(offset)
            store.role.on_deleted(self.now)

    def compact(self, spu: SpuId) -> None:
        store = self.stores[spu]
        end = store.high_watermark.value
        if not store.is_up or store.is_outdated:
            return
        store.write_down_high_watermark()
        candidates = [entry for entry in store.log.all if entry.end <= end]
        for entry in candidates[:-1]:  # the last batch of a segment stays
            if entry.kind in (EntryKind.EVENT, EntryKind.COMPACTED) and self.random.random() < 0.3:
                store.log.compact(entry, wholly=self.random.random() < 0.5)
                self.truth.on_compacted(entry)

    # what goes wrong

    def kill(self, spu: SpuId) -> None:
        """Kills the process of a store; the next one finds everything that it has written."""
        store = self.stores[spu]
        store.is_up, store.role = False, None
        self.known.pop(spu, None)
        if self.bugs.kill_ends_doubt:
            store.doubt = False
        store.waiting.clear()
        self.break_links(spu)

    def lose_power(self, spu: SpuId) -> None:
        """Cuts the power of a store, if another store has what this one may lose; otherwise only a sync could help."""
        store = self.stores[spu]
        if not store.is_up:
            return
        damaged = {other for other, its in self.stores.items() if its.is_damaged or other == spu}
        if not self.world.syncs:
            if self.moves is not None:
                if not self.moves.survive(self.spec.layout, self.wanted, damaged):
                    return
            elif isinstance(self.policy, QuorumPolicy):
                if len(damaged) >= self.policy.writes:
                    return
            elif self.policy.replicas_min > 1 and len(damaged) >= self.policy.replicas_min:
                return
            elif (self.policy.replicas_min == 1 or self.world.unclean) and self.spec.live.keys() <= damaged:
                return  # an unclean election leaves one, whatever the minimum
        self.kill(spu)
        store.is_damaged = store.doubt = True
        store.number += 1
        store.lose_unsynced(self.random)
        self.network = [item for item in self.network if not (item.sender == spu and item.receiver == CONTROLLER)]

    def cut_or_mend(self, spu: SpuId) -> None:
        self.cut_off = spu if self.cut_off is None else None

    def stop(self, spu: SpuId) -> None:
        store = self.stores[spu]
        role = store.role
        if isinstance(role, Leader) and not role.is_stopping and self.random.random() < 0.7:
            role.on_stopping(self.now)
            self.carry_out(store)
        elif store.is_up:
            if isinstance(role, Leader) and role.is_settled and role.epoch == self.spec.epoch:
                end = store.log.log_end
                linked = [live for live in self.spec.live if (live, spu) in self.links]
                knows = all(self.stores[live].high_watermark.value >= end for live in linked)
                check(knows or self.world.unclean, "all is settled, and a live replica does not know it")
            self.sync(spu)
            self.kill(spu)

    def start(self, spu: SpuId) -> None:
        store = self.stores[spu]
        if store.is_up:
            return
        store.start()
        if self.bugs.cuts_to_high_watermark_at_start:
            store.log.cut(store.high_watermark.value)
        self.registered[spu] = store.process, store.incarnation
        self.online.add(spu)
        if self.spec.leader == spu:
            self.elect()

    # the Streaming Controller

    def store_live(self, live: dict[SpuId, str]) -> None:
        self.spec = replace(self.spec, live=live, version=self.spec.version + 1)

    def notice(self, spu: SpuId) -> None:
        if self.stores[spu].is_up:
            self.online.add(spu)
        else:
            self.online.discard(spu)
        leader = self.spec.leader
        if leader not in self.online or self.registered[leader][0] != self.spec.process:
            self.elect()

    def suspect(self, spu: SpuId) -> None:
        if self.world.unclean and self.random.random() < 0.3:
            self.elect_uncleanly(spu)
        else:
            self.elect()

    def elect(self) -> None:
        """Elects a leader, and leaves the live set as it is: only the leader removes replicas from it."""
        candidates = self.candidates()
        if not candidates:
            return
        if self.world.hesitates and self.random.random() < 0.6:
            self.spec = replace(self.spec, leader=CONTROLLER)
            for spu in self.stores:
                self.tell(spu)
            return
        online = sorted(self.online.intersection(self.wanted) if self.moves is not None else self.online)
        live = self.spec.live or {spu: self.registered[spu][1] for spu in online}
        if self.bugs.election_shrinks_live_set:
            live = {spu: incarnation for spu, incarnation in live.items() if spu in self.online}
        self.store_leader(self.random.choice(candidates), live)

    def elect_uncleanly(self, spu: SpuId) -> None:
        if spu not in self.online or not self.stores[spu].is_up:
            return
        self.truth.on_unclean_election(Epoch(self.spec.epoch + 1))
        for store in self.stores.values():
            store.is_outdated = True
            store.checked_end = 0
        self.store_leader(spu, {spu: self.registered[spu][1]})

    def store_leader(self, leader: SpuId, live: dict[SpuId, str], layout: PartitionSpec | None = None) -> None:
        epoch, version = Epoch(self.spec.epoch + 1), self.spec.version + 1
        self.spec = Spec(leader, self.registered[leader][0], epoch, live, version, layout or self.spec.layout)
        self.layouts[epoch] = self.spec.layout
        self.has_reported = self.has_taken_over = False
        for spu in self.stores:
            self.tell(spu)

    def move(self) -> None:
        """Takes the next step of a move, or requests other replicas."""
        assert self.moves is not None
        if self.random.random() < 0.15:
            self.wanted = other_row(self.moves, self.spec.layout, self.wanted, self.random)
        else:
            self.advance_move()

    def advance_move(self) -> None:
        spec = self.spec
        if self.moves is None or not self.has_reported:
            return
        partition = moved(
            self.moves,
            spec.layout,
            self.wanted,
            leader=spec.leader,
            process=spec.process,
            epoch=spec.epoch,
            live=spec.live,
            version=spec.version,
            has_taken_over=self.has_taken_over,
            registered=self.registered,
            online=self.online,
        )
        status = partition.status
        if status.epoch > spec.epoch:
            self.store_leader(status.leader, dict(status.live_replicas), partition.spec)
        else:
            self.spec = replace(spec, layout=partition.spec)

    def gone_for_good(self) -> set[SpuId]:
        """Returns stores that may stay away forever, because the other stores have everything."""
        spare = sorted(self.stores.keys() - set(self.wanted))
        is_doubtful = any(self.stores[spu].doubt or self.stores[spu].is_damaged for spu in self.spec.layout.replicas)
        if self.moves is None or not spare or is_doubtful or self.random.random() < 0.3:
            return set()
        gone = {self.random.choice(spare)}
        sets = self.spec.layout.copy_sets or (self.spec.layout.replicas,)
        if any(len(gone.intersection(each)) > 0 and self.moves.writes_of(each) < 2 for each in sets):
            return set()
        for spu in gone:
            self.kill(spu)
        return gone

    def candidates(self) -> list[SpuId]:
        live = self.spec.live
        if not live or not isinstance(self.policy, LivePolicy):
            return sorted(self.online.intersection(self.spec.layout.copy_set))
        sure = [spu for spu, name in live.items() if spu in self.online and self.registered[spu][1] == name]
        if self.bugs.controller_ignores_incarnations:
            sure = [spu for spu in live if spu in self.online]
        if sure:
            return sure
        if live.keys() <= self.online and all(self.registered[spu][1] != live[spu] for spu in live):
            return [max(live, key=lambda spu: self.stores[spu].log.log_end)]
        return []

    def tell(self, spu: SpuId) -> None:
        self.network.append(Item(CONTROLLER, "", spu, self.spec))

    def on_proposal(self, sender: SpuId, process: str, proposal: ProposeLiveReplicas) -> None:
        spec = self.spec
        members = dict(proposal.members)
        named = {spu: name for spu, name in members.items() if name}
        is_current = (
            proposal.epoch == spec.epoch
            and (proposal.version == spec.version or self.bugs.controller_ignores_versions)
            and sender == spec.leader
            and process == spec.process == self.registered[sender][0]
            and all(name or spu in spec.live for spu, name in members.items())
        )
        if is_current and members.keys() <= set(spec.layout.replicas):
            self.has_reported = True
            self.has_taken_over = self.has_taken_over or proposal.has_taken_over
            is_known = all(self.registered[spu][1] == name for spu, name in named.items())
            if is_known or self.bugs.controller_ignores_incarnations:
                self.store_live({spu: name or spec.live[spu] for spu, name in members.items()})
            else:
                self.store_live(spec.live)  # so that the leader may give this proposal up
                named = {}
            for spu, name in named.items():
                store = self.stores[spu]
                if store.is_up and name == store.incarnation and isinstance(self.policy, LivePolicy):
                    store.is_damaged = False
        self.tell(sender)

    # invariants

    def check_all(self) -> None:
        check(self.spec.live.keys() <= set(self.spec.layout.replicas), "somebody is live that holds nothing")
        for store in self.stores.values():
            if store.is_up:
                self.note_whether_outdated(store)
                if not store.is_outdated:
                    before = store.checked_end
                    self.truth.check_committed(store)
                    if isinstance(store.role, Leader) and store.role.is_serving:
                        self.truth.on_readable(store, before)
        self.check_enough_have_it()
        role = self.stores[self.spec.leader].role if self.spec.leader else None
        if isinstance(role, Leader) and role.epoch == self.spec.epoch and role.is_serving:
            self.truth.check_holds_acknowledged(self.stores[self.spec.leader])
            self.truth.check_epochs(self.stores[self.spec.leader], role.epoch)
            self.truth.check_stays_deleted(self.stores[self.spec.leader])

    def note_whether_outdated(self, store: Store) -> None:
        role = store.role
        if store.is_outdated and role is not None and role.epoch >= self.truth.unclean_epoch:
            if isinstance(role, Follower):
                log_start = self.stores[role.leader].log.log_start
                is_known = role.matched_end >= store.high_watermark.value and store.log.log_start >= log_start
                store.is_outdated = not (role.is_compared and is_known)
            else:
                store.is_outdated = False

    def check_enough_have_it(self) -> None:
        """Checks that W stores have each acknowledged record, except for what a power failure took."""
        if not isinstance(self.policy, QuorumPolicy) or self.moves is not None:
            return
        sound = [store for store in self.stores.values() if not store.is_damaged]
        held = [{content_of(entry) for entry in store.log.all} for store in sound]
        for entry in self.truth.acknowledged:
            content = content_of(entry)
            if sum(content not in each for each in held) > self.policy.stores - self.policy.writes:
                check(self.truth.is_gone(content), "too few keep what was acknowledged")

    def check_policy_holds(self, entry: Entry, epoch: Epoch) -> None:
        holders = {
            spu
            for spu, store in self.stores.items()
            if (store.is_damaged and not self.world.syncs)
            or self.truth.holds(store, entry, store.synced if self.world.syncs else store.log.all)
        }
        if self.moves is not None:
            row = self.layouts[epoch].copy_set
            check(len(holders.intersection(row)) >= self.moves.writes_of(row), "acknowledged by too few")
        elif isinstance(self.policy, QuorumPolicy):
            check(len(holders) >= self.policy.writes, "acknowledged by too few")
        else:
            check(self.spec.live.keys() <= holders, "acknowledged, and a live replica does not have it")


def run(seed: int, world: World, *, steps: int = 300, bugs: Bugs | None = None) -> Cluster:
    cluster = Cluster(seed, world, bugs=bugs)
    try:
        cluster.run(steps)
    except AssertionError as error:
        raise InvariantError(f"seed {seed}, {world}: {error}") from error
    return cluster
