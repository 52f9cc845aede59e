"""Sends what handlers have emitted, dead letters, and events that are retried aside, until brokers acknowledge them."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import trio

from tailrace.client.outgoing_records import RecordRefusedError
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.dead_letters.dead_letter import Origin, dead_letter, without_value
from tailrace.trigger.shards.line_effects import DeadLetter, Sending
from tailrace.trigger.shards.retry_records import retry_output
from tailrace.trigger.work import Output

from .replica_metrics import ReplicaMetrics

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class OutputRefusedError(Exception):
    """The brokers will never take an output; the message says why."""


class Topics(Protocol):
    """Creates the topics of failed records."""

    async def ensure(self, topic: str) -> None:
        """Creates a topic unless it exists. Raises UnreachableError and RefusedError."""

    def forget(self, topic: str) -> None:
        """Looks for a topic again the next time, because it may have been deleted."""


class Producer(Protocol):
    """Sends records."""

    async def send(self, records: Iterable[Output]) -> None:
        """Returns when all records are acknowledged. Raises RecordRefusedError, RefusedError and UnreachableError."""


class OutputSender:
    """Sends through a producer, and retries while brokers cannot be reached."""

    def __init__(
        self,
        producer: Producer,
        side_topics: Topics,
        config: TriggerConfig,
        metrics: ReplicaMetrics,
        chance: Chance,
        logger: FilteringBoundLogger,
    ) -> None:
        self._producer = producer
        self._side_topics = side_topics
        self._config = config
        self._metrics = metrics
        self._chance = chance
        self._logger = logger
        self.problem = ""
        """Why output cannot be sent at the moment; empty if it can."""

    async def send(self, sending: Sending) -> None:
        """Sends everything in order; returns when brokers have acknowledged it. Raises OutputRefusedError."""
        outputs, first_letter = outputs_of(sending, self._config)
        side_topics = sorted({each.topic for each in outputs[len(sending.outputs) :]})
        failures = 0
        while (problem := await self._attempt(outputs, side_topics, first_letter)) is not None:
            if problem and problem != self.problem:
                self.problem = problem
                self._logger.warning("output_not_sent", reason=problem)
            failures += bool(problem)
            await trio.sleep(spread_pause_seconds(failures, self._chance))
        self._metrics.outputs += len(sending.outputs)
        if self.problem:
            self.problem = ""
            self._logger.info("output_sent_again")

    async def _attempt(self, outputs: list[Output], side_topics: Sequence[str], first_letter: int) -> str | None:
        """Sends everything once. Returns None if all is sent, or else why it must be sent again.

        A dead letter that is too large loses its value in `outputs`, and the reason is empty. Raises
        OutputRefusedError.
        """
        try:
            for topic in side_topics:
                await self._side_topics.ensure(topic)
            await self._producer.send(outputs)
        except UnreachableError as error:
            return str(error)
        except RefusedError as refused:
            if refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                for topic in side_topics:
                    self._side_topics.forget(topic)
                return str(refused)  # a person may create the topic
            number = refused.number if isinstance(refused, RecordRefusedError) else -1
            if number < 0 or (smaller := smaller_letter(outputs, number, first_letter, refused)) is None:
                raise OutputRefusedError(reason_of(refused)) from refused
            outputs[number] = smaller
            return ""
        return None


def outputs_of(sending: Sending, config: TriggerConfig) -> tuple[list[Output], int]:
    """Returns everything that is sent, in order, and the position of the first dead letter."""
    letters = [letter_output(each, config) for each in sending.dead_letters]
    asides = [retry_output(each, config.retry_topic) for each in sending.asides]
    outputs = [*sending.outputs, *asides, *letters]
    return outputs, len(outputs) - len(letters)


def smaller_letter(outputs: Sequence[Output], number: int, first_letter: int, refused: RefusedError) -> Output | None:
    """Returns a refused dead letter without its value if it was too large; None if nothing smaller can be sent."""
    if refused.code not in _TOO_LARGE or number < first_letter or outputs[number].value is None:
        return None
    return without_value(outputs[number])


def letter_output(letter: DeadLetter, config: TriggerConfig) -> Output:
    """Makes the record for the topic of dead letters."""
    timestamp_ms = -1 if letter.record is None else letter.record.timestamp
    origin = Origin(letter.shard, letter.offset, timestamp_ms, config.group)
    return dead_letter(config.dead_letter_topic, origin, letter.record, letter.failure, letter.attempts, letter.batch)
