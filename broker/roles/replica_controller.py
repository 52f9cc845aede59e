"""The controller of one replica's replication: chooses its role and carries out the role's effects in order.

The role decides and never waits. All effects of one event are carried out before the next event is delivered, nearly
always within the call that brought the event. If the disk is slow, a task carries them out, and later events are
deferred. The newest spec is deferred, too: a new role begins when the log is not being changed by the earlier one.
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
from tailrace.runtime.descriptors import retry_when_out_of_files

from .follower_controller import FollowerController
from .leader_controller import LeaderController, MissingEntriesError
from .log_changes import LogChanges
from .role_context import RoleContext

DEFERRED_EVENTS_MAX = 1000
"""Many times a leader's window. Further messages are dropped, as if the network had lost them. All other events are
kept: they are rare (links, settings, deadlines), and nothing repeats them."""

START_SECONDS_MAX = 20.0

LOG_ERRORS = (OSError, KafkaError)
"""What a log raises if its disk fails or if a batch is damaged."""

Role = LeaderController | FollowerController
Event = Callable[[Role, float], None]


class ReplicaController:
    """The controller of one replica of a partition with several replicas."""

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
        """The high watermark after all requested effects. The replica's own high watermark is that of the log as it
        is."""
        self._role: Role | None = None
        self._deferred: list[tuple[Event, ReceivedBatches | None]] = []
        self._busy_until: trio.Event | None = None
        """Set while effects are being carried out; the event is set when they are."""
        self._has_pending_spec = False
        """Whether a spec came while effects were being carried out."""
        self._seal: Seal | None = None
        """The Seal for which the log is being scanned. The leader repeats it until it gets a response."""
        self._is_starting_slowly = False
        """Whether this replica has to scan its log before it can lead."""
        self._is_scan_incomplete = False
        """Whether a scan could not read everything. The role then begins without the cached entries."""
        self._is_over = False
        self._timer: Timer | None = None

    # state

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
        """Whether the log is complete: it is not while truncated entries are being replaced."""
        return not self._is_busy and not (
            self._context.is_in_doubt(self._replica.spec) if self._role is None else self._changes.in_doubt
        )

    # events

    def on_spec(self) -> None:
        """Takes over the replica's new spec."""
        if self._is_busy:
            self._has_pending_spec = True
            if isinstance(self._role, LeaderController) and self._replica.spec.epoch > self._role.epoch:
                self._role.stop_fetching()
        elif not self._is_over:
            try:
                self._apply_spec()
            except LOG_ERRORS as error:  # a role begins by reading the log
                self._fail(error)

    def on_message(self, spu: SpuId, from_leader: bool, message: PeerMessage, received: ReceivedBatches | None) -> None:
        """Handles a message from another SPU, or defers it."""
        role = self._role
        trace = self._context.trace
        if trace is not None:
            (trace.follower_event if from_leader else trace.leader_event)(self._replica.key, message)
        if type(message) is FetchedEntries:
            if isinstance(role, LeaderController) and received is not None:
                role.on_fetched(message, received)
        elif (type(message) is Append or type(message) is Seal) and self._promise.refuses(message.epoch):
            # The sender takes itself for the leader, and this message tells it otherwise. Its successor may be a third
            # SPU.
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
            # This does the same as `_apply`, without a callable for each message, because messages are the most
            # frequent events.
            try:
                role.on_message(spu, from_leader, message, self._context.now())
            except LOG_ERRORS as error:  # the role has read the log
                self._fail(error)
            else:
                self._carry_out(role, received)

    def on_appended(self) -> None:
        """Notes appends of a producer, of the role itself, or of an earlier role in this turn."""
        role = self._role
        if self._context.trace is not None:
            self._context.trace.leader_event(self._replica.key, "appended")
        if isinstance(role, LeaderController) and self._busy_until is None and role.core.is_serving:
            self._apply(_on_appended)
        self.entries.recent_batches.forget()

    def on_synced(self) -> None:
        # Use the synced end at delivery: recovery may have truncated some of the log by then.
        self.tell_leader(lambda leader, now: leader.core.on_synced(self._replica.log.synced_end, now))

    def on_deleted(self) -> None:
        self.tell_leader(lambda leader, now: leader.core.on_deleted(now))

    def on_compacted(self) -> None:
        """Drops cached entries, because batches have been compacted, and more may follow."""
        self.entries.on_changed()
        self.tell_leader(lambda leader, now: leader.core.on_compacted())

    def on_settings(self) -> None:
        self._deliver(lambda role, now: role.on_settings(now))

    def on_offline(self) -> None:
        """Ends the role, because the disk has failed. Waiting requests were refused already."""
        if self._replica.log.may_have_lost:
            self._context.note_failed_disk()
        if not self._is_busy:
            self._fail_role()

    def _fail_role(self) -> None:
        """Ends a leader. A follower continues only to tell its leader, and later ones, not to wait for it."""
        role = self._role
        self._deferred.clear()
        if not isinstance(role, FollowerController):
            self._end_role()
        elif not role.core.has_failed:
            role.core.on_failed()
            self._carry_out(role)
            self._context.peers.flush()

    def tell_leader(self, event: Callable[[LeaderController, float], None], what: str = "") -> None:
        """Delivers an event that matters only to a leader; `what` is its name in the trace."""
        leads = isinstance(self._role, LeaderController)
        if what and leads and self._context.trace is not None:
            self._context.trace.leader_event(self._replica.key, what)
        if leads or self._is_busy:
            self._deliver(partial(_if_it_leads, event))

    def tell_follower_of(self, leader: SpuId, event: Callable[[FollowerController, float], None]) -> None:
        """Delivers an event that matters only if this replica follows that SPU."""
        role = self._role
        if self._is_busy or (isinstance(role, FollowerController) and role.leader == leader):
            self._deliver(partial(_if_it_follows, leader, event))

    def _deliver(self, event: Event, received: ReceivedBatches | None = None) -> None:
        """Delivers an event that is neither a message nor an append."""
        if self._is_busy:
            self._deferred.append((event, received))
        elif self._role is not None:
            self._apply(event, received)

    def stop_leading(self) -> LeaderController | None:
        """Stops appending. Returns the leader, which continues until its followers know what is committed."""
        role = self._role
        self._replica.stop_accepting()
        if isinstance(role, LeaderController):
            self.tell_leader(lambda leader, now: leader.core.on_stopping(now))
            return role
        return None

    async def wait_until_started(self) -> None:
        """Waits for a slow start of a leader, because the SC waits for SPUs that carry out specs; not for ever, because
        other specs wait, too."""
        if not self._is_starting_slowly:
            return  # the common case; entering a scope takes as long as opening a log
        with trio.move_on_after(START_SECONDS_MAX):
            while self._is_starting_slowly and self._busy_until is not None:
                await self._busy_until.wait()
        self._is_starting_slowly = False

    async def end(self) -> None:
        """Ends the role. When this returns, the log may be used by others."""
        self._is_over = True
        self._end_role()
        if self._busy_until is not None:
            await self._busy_until.wait()

    def may_roll(self, segment_base: int) -> bool:
        """Returns whether everything before this segment is committed. A follower may know this for what it is about to
        append."""
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

    # scanning the log

    def _starts_scan(self, start: int | None) -> bool:
        """Starts a task that scans the log from `start` on, if this takes long; returns whether it did.

        There may be a hundred thousand uncommitted batches. Reading them at once would take so long that the SPU loses
        its lease, and would have to start again.
        """
        if start is None or not self.entries.is_long_scan(min(start, self._high_watermark.value)):
            return False
        self._run_first(self._scan, min(start, self._high_watermark.value))
        return True

    async def _scan(self, start: int) -> None:
        self._is_scan_incomplete = not await self.entries.scan_in_turns(start)

    async def _lower_checkpoint(self) -> None:
        """Lowers the checkpointed high watermark before entries replace lost ones. Otherwise a later process could
        claim that the new entries are committed because the lost ones were."""
        await retry_when_out_of_files(self._context.write_high_watermarks)

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

    # carrying out effects

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
        """Carries out effects without waiting; returns whether this was possible. It is for a follower's appends, which
        are nearly all effects."""
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
        """Makes the log free again, whatever happens inside."""
        try:
            yield
        except LOG_ERRORS as error:
            self._end_busy()
            self._fail(error)
        except trio.Cancelled:
            # The SPU ends. Tasks that wait for the log, even shielded ones, must not wait for ever. The role believes
            # that the effects are carried out, which they are not, so it must not go on.
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
            self._fail_role()  # the disk may have failed meanwhile
        elif self._role is not role:
            pass  # the role has ended, and the log belongs to another
        elif missing_from is None:
            self._finish(role, ready)
        elif self._starts_scan(self._high_watermark.value):
            self._deferred.insert(0, (partial(_on_recovery_failed, missing_from), None))
        else:
            self._deliver(partial(_on_recovery_failed, missing_from))
        self._resume()

    def _resume(self) -> None:
        """Delivers what was deferred."""
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
        """Requests entries from another follower that this replica lacks."""
        copied, received = await self._context.copies.fetch(self._replica, asked)
        if self._role is role:
            self._deliver(partial(_on_copied, copied), received)
            self._context.peers.flush()

    def _fail(self, error: OSError | KafkaError) -> None:
        damaged_from: int | None = None
        if isinstance(error, DamagedLogError):
            damaged_from = error.offset
        elif isinstance(error, KafkaError) or self._replica.is_out_of_descriptors(error):
            # Nothing is damaged if only no more files can be opened. But the effects may be half done. So the log is
            # opened again when files can be opened, and a new role begins on it.
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
    """Reports the deadline to the role, unless it has been put off since; then the timer is set again."""
    if now >= role.core.deadline:
        role.core.on_deadline(now)
