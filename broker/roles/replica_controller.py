"""One replica's part in replication: which role it has, and that what the role asks for is carried out.

The role decides and never waits. What it asks for is done completely, in its order, before it hears of anything else:
nearly always at once, in the call that brought the news. Where the disk has to be waited for, a task does it, and what
comes meanwhile is kept; so is the newest spec, for a new role begins on a log that the last one is done with.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import trio

from tailrace.broker.peers.peer_messages import FetchedEntries, PeerMessage, ReceivedBatches
from tailrace.broker.replicas.deadlines import Timer
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import DamagedLogError, ReplicaLog
from tailrace.broker.replication.copying import CopyRequest, CopyResponse
from tailrace.broker.replication.high_watermark import HighWatermark
from tailrace.broker.replication.messages import Append, Fenced, Seal
from tailrace.broker.replication.ready import AppendEntries, Persist, Ready
from tailrace.broker.replication.sealing import Promise
from tailrace.cluster.specs import NO_LEADER
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.runtime.descriptors import once_files_can_be_opened

from .follower_controller import FollowerController
from .leader_controller import LeaderController, MissingEntriesError
from .log_changes import LogChanges
from .role_context import RoleContext

DEFERRED_EVENTS_MAX = 1000
"""Many times the window of a leader. Messages that come beyond are dropped, as if the network had lost them. All else
is kept: nobody says it again, and it is seldom said, for it is of links, settings and deadlines."""

START_SECONDS_MAX = 20.0

LOG_ERRORS = (OSError, KafkaError)
"""What a log raises that its disk fails, or that has batches which are none any more."""

Role = LeaderController | FollowerController
Event = Callable[[Role, float], None]


class ReplicaController:
    def __init__(self, replica: Replica, context: RoleContext) -> None:
        self._replica = replica
        self._context = context
        self.entries = ReplicaLog(replica.log)
        self.on_batches = self.entries.on_batches
        self._changes = LogChanges(replica, self.entries, context)
        self._promise = Promise(context.promises.epoch(replica.key))
        epoch = replica.high_watermark_epoch
        if epoch == NO_EPOCH:
            epoch = max(self._promise.epoch, Epoch(replica.log.epochs.latest))
        self._high_watermark = HighWatermark(replica.high_watermark, epoch)
        """Of the log as it will be when all is carried out; that of the replica is of the log as it is."""
        self._role: Role | None = None
        self._deferred: list[tuple[Event, ReceivedBatches | None]] = []
        self._busy_until: trio.Event | None = None
        """While something is being carried out: for who waits for its end."""
        self._has_pending_spec = False
        """A spec came while something was being carried out."""
        self._seal: Seal | None = None
        """For this one the log is looked through; its leader says it again until it is answered."""
        self._is_starting_slowly = False
        """To begin to lead: the log has to be looked through."""
        self._is_scan_incomplete = False
        """The log was looked through, and does not say how it goes on: its role begins without that."""
        self._is_over = False
        self._timer: Timer | None = None

    # what is

    @property
    def _is_busy(self) -> bool:
        return self._busy_until is not None

    @property
    def reaches_peers(self) -> bool:
        return self._role is not None and self._role.reaches_peers

    @property
    def promised(self) -> Epoch:
        return self._promise.epoch

    @property
    def is_sure(self) -> bool:
        """Between a cut and what is appended behind it, the log lacks what it has to have."""
        return not self._is_busy and not (
            self._context.is_in_doubt(self._replica.spec) if self._role is None else self._changes.in_doubt
        )

    # what happened

    def on_spec(self) -> None:
        """The replica has another one."""
        if self._is_busy:
            self._has_pending_spec = True
            if isinstance(self._role, LeaderController) and self._replica.spec.epoch > self._role.epoch:
                self._role.stop_fetching()
        elif not self._is_over:
            try:
                self._apply_spec()
            except LOG_ERRORS as error:  # a role begins by looking at the log
                self._fail(error)

    def on_message(self, spu: SpuId, from_leader: bool, message: PeerMessage, received: ReceivedBatches | None) -> None:
        role = self._role
        trace = self._context.trace
        if trace is not None:
            (trace.follower_event if from_leader else trace.leader_event)(self._replica.key, message)
        if type(message) is FetchedEntries:
            if isinstance(role, LeaderController) and received is not None:
                role.on_fetched(message, received)
        elif (type(message) is Append or type(message) is Seal) and self._promise.refuses(message.epoch):
            # Whoever thinks that it leads, this tells it that it does not; its successor may be a third SPU.
            self._context.peers.send_to_leader(spu, self._replica.key, Fenced(self._promise.epoch))
            self._context.logger_of(self._replica).info(
                "deposed_leader_refused", leader=spu, its_epoch=message.epoch, epoch=self._promise.epoch
            )
        elif self._busy_until is not None:
            if len(self._deferred) < DEFERRED_EVENTS_MAX and message != self._seal:
                kept = None if received is None else received.kept()
                self._deferred.append((partial(_on_message, spu, from_leader, message), kept))
        elif role is not None and type(message) is Seal and self._starts_scan(message.entries_from):
            self._seal = message
            self._deferred.append((partial(_on_message, spu, from_leader, message), None))
        elif role is not None:
            # As `_apply` does, without a callable for each message: there is hardly anything that comes more often.
            try:
                role.on_message(spu, from_leader, message, self._context.now())
            except LOG_ERRORS as error:  # of the log, which the role looks at
                self._fail(error)
            else:
                self._carry_out(role, received)

    def on_appended(self) -> None:
        """A producer's batches; or what the role appended itself, or the one before it in this turn."""
        role = self._role
        if self._context.trace is not None:
            self._context.trace.leader_event(self._replica.key, "appended")
        if isinstance(role, LeaderController) and self._busy_until is None and role.core.is_serving:
            self._apply(_on_appended)
        self.entries.recent_batches.forget()

    def on_synced(self) -> None:
        # As far as it is when the leader hears of it: recovery may have cut off some of it until then.
        self.tell_leader(lambda leader, now: leader.core.on_synced(self._replica.log.synced_end, now))

    def on_deleted(self) -> None:
        self.tell_leader(lambda leader, now: leader.core.on_deleted(now))

    def on_compacted(self) -> None:
        """Some batches may be others than before, and what follows be compacted for long yet."""
        self.entries.on_changed()
        self.tell_leader(lambda leader, now: leader.core.on_compacted())

    def on_settings(self) -> None:
        self._deliver(lambda role, now: role.on_settings(now))

    def on_offline(self) -> None:
        """The replica's disk has failed: whoever waits was told, and nothing more comes from here but that."""
        if self._replica.log.may_have_lost:
            self._context.note_failed_disk()
        if not self._is_busy:
            self._fail_role()

    def _fail_role(self) -> None:
        """A follower stays one, to tell its leader, and those after it, not to wait."""
        role = self._role
        self._deferred.clear()
        if not isinstance(role, FollowerController):
            self._end_role()
        elif not role.core.has_failed:
            role.core.on_failed()
            self._carry_out(role)
            self._context.peers.flush()

    def tell_leader(self, event: Callable[[LeaderController, float], None], what: str = "") -> None:
        """What concerns this replica only if it leads; `what` is for who watches."""
        leads = isinstance(self._role, LeaderController)
        if what and leads and self._context.trace is not None:
            self._context.trace.leader_event(self._replica.key, what)
        if leads or self._is_busy:
            self._deliver(partial(_if_it_leads, event))

    def tell_follower_of(self, leader: SpuId, event: Callable[[FollowerController, float], None]) -> None:
        """What concerns it only if it follows that SPU."""
        role = self._role
        if self._is_busy or (isinstance(role, FollowerController) and role.leader == leader):
            self._deliver(partial(_if_it_follows, leader, event))

    def _deliver(self, event: Event, received: ReceivedBatches | None = None) -> None:
        """Something rarer than messages and appends."""
        if self._is_busy:
            self._deferred.append((event, received))
        elif self._role is not None:
            self._apply(event, received)

    def stop_leading(self) -> LeaderController | None:
        """Nothing more is appended. The leader that there was goes on until its followers know what is committed."""
        role = self._role
        self._replica.stop_accepting()
        if isinstance(role, LeaderController):
            self.tell_leader(lambda leader, now: leader.core.on_stopping(now))
            return role
        return None

    async def wait_until_started(self) -> None:
        """Until what takes long is done before it leads: the Streaming Controller waits for who carries out a spec. Not
        for ever, for all other specs wait as well."""
        if not self._is_starting_slowly:
            return  # nearly always, and a scope takes as long as a log takes to open
        with trio.move_on_after(START_SECONDS_MAX):
            while self._is_starting_slowly and self._busy_until is not None:
                await self._busy_until.wait()
        self._is_starting_slowly = False

    async def end(self) -> None:
        """The log belongs to somebody else when this returns."""
        self._is_over = True
        self._end_role()
        if self._busy_until is not None:
            await self._busy_until.wait()

    def may_roll(self, segment_base: int) -> bool:
        """As the replica has it; what a follower is just about to append may be known to be committed."""
        return self._high_watermark.value >= segment_base

    # roles

    def _apply_spec(self) -> None:
        replica, spec, role = self._replica, self._replica.spec, self._role
        context, now = self._context, self._context.now()
        leads = spec.leader == context.spu
        if context.trace is not None and spec.leader != NO_LEADER:
            (context.trace.leader_event if leads else context.trace.follower_event)(replica.key, "PartitionSpec")
        if isinstance(role, LeaderController) and leads and role.epoch == spec.epoch:
            role.on_spec(spec, now)
        elif isinstance(role, FollowerController) and role.epoch == spec.epoch and role.leader == spec.leader:
            role.on_spec()
            return
        else:
            self._end_role()
            if not self._may_begin(leads):
                return
            if context.checkpoint_is_ahead_of(replica):
                self._has_pending_spec = True
                self._run_first(self._lower_checkpoint)
                return
            if leads and not self._is_scan_incomplete and self._starts_scan(self._high_watermark.value):
                self._has_pending_spec = self._is_starting_slowly = True
                return
            self._is_scan_incomplete = False
            self._changes.in_doubt = context.is_in_doubt(spec)
            kind = LeaderController if leads else FollowerController
            self._role = kind(
                replica,
                self.entries,
                self._promise,
                self._high_watermark,
                context,
                context.logger_of(replica),
                in_doubt=self._changes.in_doubt,
                now=now,
            )
            role = self._role
            role.begin(now)
        self._carry_out(role)

    def _may_begin(self, leads: bool) -> bool:
        spec = self._replica.spec
        if spec.leader == NO_LEADER or spec.epoch < self._promise.epoch:
            return False
        if leads and self._replica.offline_reason is not None:
            return False
        return not leads or (spec.leader_incarnation == self._context.process and spec.epoch > self._promise.epoch)

    def _end_role(self) -> None:
        if self._role is not None:
            self._role.end()
            self._role = None
            self._deferred.clear()
            self.entries.recent_batches.forget()

    # looking through the log

    def _starts_scan(self, start: int | None) -> bool:
        """Whether there is so much from there on that a task does it first. What is not known to be committed may be a
        hundred thousand batches: whoever went through them at once would lose its lease, and would have to begin anew.
        """
        if start is None or not self.entries.is_long_scan(min(start, self._high_watermark.value)):
            return False
        self._run_first(self._scan, min(start, self._high_watermark.value))
        return True

    async def _scan(self, start: int) -> None:
        self._is_scan_incomplete = not await self.entries.scan_in_turns(start)

    async def _lower_checkpoint(self) -> None:
        """Before anything comes in the place of what was lost: no process after this one is to say that it is
        committed, because something else was, however soon this one ends."""
        await once_files_can_be_opened(self._context.write_high_watermarks)

    def _run_first(self, work: Callable[..., Awaitable[None]], *args: int) -> None:
        self._busy_until = trio.Event()
        self._context.nursery.start_soon(self._run_and_resume, work, *args)

    async def _run_and_resume(self, work: Callable[..., Awaitable[None]], *args: int) -> None:
        with self._ending_busy():
            await work(*args)
        self._seal = None
        if self._replica.offline_reason is not None:
            self._fail_role()
        self._resume()

    # carrying out

    def _apply(self, event: Event, received: ReceivedBatches | None = None) -> None:
        role = self._role
        assert role is not None
        try:
            event(role, self._context.now())
        except LOG_ERRORS as error:
            self._fail(error)
        else:
            self._carry_out(role, received)

    def _carry_out(self, role: Role, received: ReceivedBatches | None = None) -> None:
        ready = role.core.take_ready()
        try:
            done = not ready.persist or self._persist_at_once(ready.persist, received)
        except LOG_ERRORS as error:
            self._fail(error)
            return
        if done:
            self._finish(role, ready)
        else:
            if ready.takes_long and isinstance(role, LeaderController):
                role.announce_leadership()
            self._busy_until = trio.Event()
            kept = None if received is None else received.kept()
            self._context.nursery.start_soon(self._carry_out_in_task, role, ready, kept)

    def _persist_at_once(self, effects: Sequence[Persist], received: ReceivedBatches | None) -> bool:
        """Whether it could be done so. A follower's appends can, and there is hardly anything else."""
        if len(effects) > 1 or received is None or not isinstance(effects[0], AppendEntries):
            return False
        try:
            self._changes.append_received(effects[0], received)
        except OSError as error:
            if not self._replica.is_out_of_descriptors(error):
                raise
            return False
        return True

    def _end_busy(self) -> None:
        if self._busy_until is not None:
            self._busy_until.set()
            self._busy_until = None

    @contextmanager
    def _ending_busy(self) -> Iterator[None]:
        """Whatever happens in it, the log is free again afterwards."""
        try:
            yield
        except LOG_ERRORS as error:
            self._end_busy()
            self._fail(error)
        except trio.Cancelled:
            # The SPU ends. Who waits for the log, shielded as it may be, must not wait for ever; and what the role
            # takes to be done is not: nothing more is to come of it.
            self._is_over = True
            self._end_busy()
            self._end_role()
            raise
        self._end_busy()

    async def _carry_out_in_task(self, role: Role, ready: Ready, received: ReceivedBatches | None) -> None:
        missing_from: SpuId | None = None
        with self._ending_busy():
            try:
                if isinstance(role, LeaderController):
                    await self._changes.apply_as_leader(role, ready.persist)
                else:
                    await self._changes.apply_as_follower(role.epoch, ready.persist, received)
            except MissingEntriesError as error:
                self._context.logger_of(self._replica).warning(
                    "recovery_failed", holder=error.holder, reason=str(error)
                )
                missing_from = error.holder
        if self._replica.offline_reason is not None:
            self._fail_role()  # it may have failed meanwhile
        elif self._role is not role:
            pass  # it has ended, and the log is somebody else's
        elif missing_from is None:
            self._finish(role, ready)
        elif self._starts_scan(self._high_watermark.value):
            self._deferred.insert(0, (partial(_on_recovery_failed, missing_from), None))
        else:
            self._deliver(partial(_on_recovery_failed, missing_from))
        self._resume()

    def _resume(self) -> None:
        """With what came meanwhile."""
        self._apply_deferred()
        if self._has_pending_spec and not self._is_busy and not self._is_over:
            self._has_pending_spec = False
            self.on_spec()
            self._apply_deferred()
        self._context.peers.flush()

    def _apply_deferred(self) -> None:
        while self._deferred and not self._is_busy and self._role is not None:
            event, batches = self._deferred.pop(0)
            self._apply(event, batches)

    def _finish(self, role: Role, ready: Ready) -> None:
        for to, message in ready.send:
            role.send(to, message)
        if ready.copy_request is not None:
            self._context.nursery.start_soon(self._copy, role, ready.copy_request)
        if role.finish(ready):
            self._set_timer(role)
        else:
            self._end_role()

    async def _copy(self, role: Role, asked: CopyRequest) -> None:
        """What another follower has of what is lacking here."""
        copied, received = await self._context.copies.fetch(self._replica, asked)
        if self._role is role:
            self._deliver(partial(_on_copied, copied), received)
            self._context.peers.flush()

    def _fail(self, error: OSError | KafkaError) -> None:
        damaged_from: int | None = None
        if isinstance(error, DamagedLogError):
            damaged_from = error.offset
        elif isinstance(error, KafkaError) or self._replica.is_out_of_descriptors(error):
            # For want of an open file nothing is damaged, but what the role was about to do may be half done: the log
            # is opened anew when files can be opened, and a role that knows nothing of this begins on it.
            damaged_from = self._replica.high_watermark
        self._replica.go_offline(str(error), damaged_from=damaged_from)

    # deadlines

    def _set_timer(self, role: Role) -> None:
        deadline = role.core.deadline
        if deadline == math.inf:
            self.entries.on_idle()
        elif self._timer is None or deadline < self._timer.deadline:
            if self._timer is not None:
                self._timer.on_expired = None
            self._timer = Timer(deadline, self._on_timer)
            self._context.deadlines.add(deadline, self._timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._role is not None:
            self._deliver(_on_deadline)
            self._context.peers.flush()


def _on_message(spu: SpuId, from_leader: bool, message: PeerMessage, role: Role, now: float) -> None:
    role.on_message(spu, from_leader, message, now)


def _on_appended(role: Role, now: float) -> None:
    if isinstance(role, LeaderController):
        role.core.on_appended(now)


def _on_recovery_failed(holder: SpuId, role: Role, now: float) -> None:
    if isinstance(role, LeaderController):
        role.core.on_recovery_failed(holder, now)


def _on_copied(copied: CopyResponse, role: Role, now: float) -> None:
    if isinstance(role, FollowerController):
        role.core.on_copied(copied)


def _if_it_leads(event: Callable[[LeaderController, float], None], role: Role, now: float) -> None:
    if isinstance(role, LeaderController):
        event(role, now)


def _if_it_follows(leader: SpuId, event: Callable[[FollowerController, float], None], role: Role, now: float) -> None:
    if isinstance(role, FollowerController) and role.leader == leader:
        event(role, now)


def _on_deadline(role: Role, now: float) -> None:
    """What the timer was set for may have been put off since; then it is set again."""
    if now >= role.core.deadline:
        role.core.on_deadline(now)
