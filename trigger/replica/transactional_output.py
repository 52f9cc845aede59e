"""Stores what handlers emit exactly once: output, dead letters and the mark of one shard are in one transaction.

    claim = await output.claim(epoch, seek_to)        where the shard begins
    await output.send(sending)                        a `Sender`; the first one opens a transaction
    await output.commit(mark)                         the mark, and everything that was sent

A claim fences first: the transactional id is that of the shard, so the transaction of an earlier owner is aborted, or
its commit is complete, before the committed offset is read. The claim itself is a transaction too, so that an owner
that was fenced meanwhile cannot move the offset. After TransactionLostError the shard is claimed again, and begins at
its committed offset: nothing that was sent since then counts.
"""

import trio

from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.client.transactions.transaction_errors import TransactionLostError
from tailrace.client.transactions.transactional_producer import TIMEOUT_SECONDS, TransactionalProducer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.trigger.config.trigger_config import Retry, SeekTo, TriggerConfig
from tailrace.trigger.shards.line_effects import Sending
from tailrace.trigger.work import Output, Shard

from .group_offsets import Claim, FencedError, GroupOffsets, Mark
from .output_sender import OutputRefusedError, Topics, outputs_of, smaller_letter
from .replica_metrics import ReplicaMetrics

TIMEOUT_SECONDS_MAX = 900.0
"""The longest timeout that brokers allow by default (transaction.max.timeout.ms)."""


def transactional_id(group: str, shard: Shard) -> str:
    """Returns the transactional id of a shard: one producer at a time writes what comes of its records.

    Neither the topic nor the number has a slash, so the ids of different shards differ.
    """
    return f"tailrace-trigger/{group}/{shard.topic}/{shard.number}"


def timeout_seconds(config: TriggerConfig) -> float:
    """Returns how long a transaction may take. If events of a list fail, it waits for all their attempts."""
    if not config.batch_size:
        return TIMEOUT_SECONDS
    handling = config.event_timeout * (config.retry.attempts - 1)
    return min(TIMEOUT_SECONDS + _pause_seconds(config.retry) + handling, TIMEOUT_SECONDS_MAX)


def _pause_seconds(retry: Retry) -> float:
    """Returns how long the pauses between all attempts are at most."""
    first, longest = retry.backoff
    doublings = min(retry.attempts - 1, 64)
    total = sum(min(first * 2.0**each, longest) for each in range(doublings))
    return total + longest * (retry.attempts - 1 - doublings)


class TransactionalOutput:
    """The `Sender` of one shard, which also commits its marks. One task at a time uses it."""

    def __init__(
        self,
        shard: Shard,
        producer: TransactionalProducer,
        offsets: GroupOffsets,
        side_topics: Topics,
        config: TriggerConfig,
        metrics: ReplicaMetrics,
        chance: Chance,
        logger: FilteringBoundLogger,
    ) -> None:
        """Takes a producer that nothing else uses, with the transactional id of the shard."""
        self._shard = shard
        self._producer = producer
        self._offsets = offsets
        self._side_topics = side_topics
        self._config = config
        self._metrics = metrics
        self._chance = chance
        self._logger = logger
        self._refusal = ""
        """Why an output was refused. Nothing is sent or committed until the next claim."""
        self._has_part = False
        """Whether the transaction may have a part of a `Sending`, because not all of it was sent yet."""
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why output cannot be sent, or a transaction not be committed, at the moment; empty if it can."""
        return self._problem or self._producer.problem

    @property
    def is_open(self) -> bool:
        """Whether something was sent since the last commit."""
        return self._producer.is_open

    @property
    def can_commit(self) -> bool:
        """Whether no output was refused, everything was sent, and the transaction is not lost."""
        return not self._refusal and not self._has_part and not self._producer.is_lost

    async def claim(self, epoch: int, seek_to: SeekTo) -> Claim:
        """Fences earlier owners of the shard, finds where it begins, and commits this offset with the owner's epoch.

        Raises FencedError if a later owner has claimed the shard, and UnreachableError and RefusedError.
        """
        # An owner that was replaced should not fence its successor.
        known = await self._offsets.committed_epoch(self._shard)
        if known > epoch:
            raise FencedError(self._shard, known)
        await self._producer.initialize()
        claim = await self._offsets.beginning(self._shard, seek_to)
        self._refusal, self._has_part = "", False
        try:
            await self.commit(Mark(claim.offset, epoch))
        except TransactionLostError as lost:
            raise RefusedError(str(lost), ErrorCode.TRANSACTION_ABORTABLE) from lost
        return claim

    async def send(self, sending: Sending) -> None:
        """Adds everything to the transaction, in order. If the call is cancelled, nothing can be committed.

        Raises OutputRefusedError, after which the transaction is aborted, and TransactionLostError.
        """
        if self._refusal:
            raise OutputRefusedError(self._refusal)
        outputs, first_letter = outputs_of(sending, self._config)
        await self._ensure(sorted({each.topic for each in outputs[first_letter:]}))
        positions = list(range(len(outputs)))
        failures = 0
        self._has_part = True
        while refused := await self._producer.send([outputs[each] for each in positions]):
            positions = [positions[each] for each in sorted(refused)]
            for position, why in zip(positions, (refused[each] for each in sorted(refused)), strict=True):
                failures += await self._prepare_again(outputs, position, first_letter, why)
            if failures:
                await trio.sleep(spread_pause_seconds(failures, self._chance))
        self._has_part = False
        self._is_solved()
        self._metrics.outputs += len(sending.outputs)

    async def _prepare_again(self, outputs: list[Output], position: int, first_letter: int, why: RefusedError) -> bool:
        """Prepares to send a refused record again; returns whether a person has to act first. Raises
        OutputRefusedError."""
        if why.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._has_problem(str(why))
            if position >= first_letter:
                self._side_topics.forget(outputs[position].topic)
                await self._ensure([outputs[position].topic])
            return True
        smaller = smaller_letter(outputs, position, first_letter, why)
        if smaller is None:
            self._refusal = reason_of(why)
            await self._producer.abort()
            raise OutputRefusedError(self._refusal) from why
        outputs[position] = smaller
        return False

    async def _ensure(self, topics: list[str]) -> None:
        """Creates the topics of dead letters, as soon as that is possible."""
        failures = 0
        for topic in topics:
            while True:
                try:
                    await self._side_topics.ensure(topic)
                except (UnreachableError, RefusedError) as error:
                    self._has_problem(reason_of(error))
                    failures += 1
                    await trio.sleep(spread_pause_seconds(failures, self._chance))
                else:
                    break

    async def commit(self, mark: Mark) -> None:
        """Commits the mark, and everything that was sent since the last commit. Raises TransactionLostError."""
        partition = Partition(*self._shard)
        text = self._offsets.text_of(mark.epoch)
        await self._producer.commit(self._offsets.group, {partition: mark.offset}, {partition: text})

    async def abort(self, why: str) -> None:
        """Aborts what was sent since the last commit. Nothing is sent or committed until the next claim."""
        self._refusal = why
        await self._producer.abort()

    def close(self) -> None:
        """Closes the connections."""
        self._producer.close()

    def _has_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._logger.warning("output_not_sent", reason=problem)

    def _is_solved(self) -> None:
        if self._problem:
            self._problem = ""
            self._logger.info("output_sent_again")
