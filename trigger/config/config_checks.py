"""Checks the values of a trigger's configuration against each other. Pure.

A setting that has no effect in combination with the others is refused, because its author expects an effect.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tailrace.cluster.topic_names import check_topic_name
from tailrace.protocol.error_codes import KafkaError

from .setting_values import duration_text
from .trigger_config import OnExhausted, Order, RetryMode, TriggerConfig

LEASE_PART = 0.8
"""The part of the session timeout after which a replica without a heartbeat hands out no further event."""

COMMIT_SECONDS_MAX = 20.0
"""The longest commit interval of a trigger with transactions, which their coordinators abort after a minute."""


class ConfigCheckError(Exception):
    """Settings contradict each other. The message is a sentence without the place."""

    def __init__(self, message: str, settings: tuple[str, ...]) -> None:
        super().__init__(message)
        self.settings = settings
        """The names of the settings; the error belongs to the place of the first one that was given."""


class _Fault(NamedTuple):
    is_so: bool
    settings: tuple[str, ...]
    sentence: str


def check_config(config: TriggerConfig, given: Collection[str]) -> None:
    """Raises ConfigCheckError for settings that contradict each other, or have no effect.

    `given` has the names of the settings that a person chose; a default never contradicts anything.
    """
    for fault in _faults(config, given):
        if fault.is_so:
            raise ConfigCheckError(fault.sentence, fault.settings)


def _faults(config: TriggerConfig, given: Collection[str]) -> Iterator[_Fault]:
    yield from _membership(config)
    yield from _access(config)
    yield from _batches(config, given)
    yield from _retries(config, given)
    yield from _side_topics(config)
    yield from _acknowledgements(config, given)
    if config.is_exactly_once:
        yield from _transactions(config)


def _membership(config: TriggerConfig) -> Iterator[_Fault]:
    yield _Fault(
        config.heartbeat_interval >= LEASE_PART * config.session_timeout,
        ("heartbeat_interval", "session_timeout"),
        f"the heartbeat interval of {duration_text(config.heartbeat_interval)} is too long for the session timeout of "
        f"{duration_text(config.session_timeout)}: it must be shorter than "
        f"{duration_text(LEASE_PART * config.session_timeout)}, after which a replica without a heartbeat stops",
    )
    yield _Fault(
        config.min_replicas is not None and config.min_replicas > config.replicas,
        ("min_replicas", "replicas"),
        f"the smallest number of replicas, {config.min_replicas}, is larger than the largest, {config.replicas}",
    )


def _access(config: TriggerConfig) -> Iterator[_Fault]:
    yield _Fault(
        config.access_user is not None and config.access_key is None,
        ("access_user",),
        "the user has no effect without an access key",
    )


def _batches(config: TriggerConfig, given: Collection[str]) -> Iterator[_Fault]:
    for name, what in (("batch_seconds", "the time that a batch waits"), ("split_batch", "splitting a failed batch")):
        yield _Fault(
            name in given and not config.batch_size,
            (name,),
            f"{what} has no effect without a batch size: the function gets single events",
        )
    yield _Fault(
        bool(config.batch_size) and config.is_explicit,
        ("acknowledgement", "batch_size"),
        "explicit acknowledgement works with single events only: leave out the batch size",
    )
    yield _Fault(
        config.retry.split_batch and config.retry.attempts == 1,
        ("split_batch",),
        "a failed batch is split for its next attempt, so that splitting has no effect with one attempt",
    )


def _retries(config: TriggerConfig, given: Collection[str]) -> Iterator[_Fault]:
    retry = config.retry
    for name, what in (
        ("retry_backoff", "the pause between attempts"),
        ("retry_mode", "the mode of retries"),
        ("retry_max_age", "the age for retries"),
    ):
        yield _Fault(name in given and retry.attempts == 1, (name,), f"{what} has no effect with one attempt")
    is_aside = retry.mode is RetryMode.ASIDE
    yield _Fault(
        is_aside and "order" in given,
        ("retry_mode", "order"),
        f"a retry aside lets later records overtake the failed one, so the order by {config.order} cannot be kept: "
        "use retries in-order, or leave out the order",
    )
    yield _Fault(
        is_aside and config.on_exhausted is OnExhausted.STOP,
        ("on_exhausted", "retry_mode"),
        "with retries aside the shard has gone on when the last attempt fails, so it cannot stop at the event: "
        "use retries in-order",
    )
    yield _Fault(
        "dead_letters" in given and config.on_exhausted is not OnExhausted.DEAD_LETTER,
        ("dead_letters", "on_exhausted"),
        f"the topic of dead letters has no effect, because an event that keeps failing is handled by "
        f"{config.on_exhausted}",
    )


def _side_topics(config: TriggerConfig) -> Iterator[_Fault]:
    is_aside = config.retry.mode is RetryMode.ASIDE
    yield _Fault(
        is_aside and not _may_name_topic(config.retry_topic),
        ("group", "topic"),
        f"the retry topic cannot have the name {config.retry_topic}: choose a shorter group of ASCII letters, digits, "
        "'.', '_' and '-', or retries in-order",
    )
    yield _Fault(
        config.on_exhausted is OnExhausted.DEAD_LETTER and not _may_name_topic(config.dead_letter_topic),
        ("group", "topic"),
        f"the topic of dead letters cannot have the name {config.dead_letter_topic}: give another one with "
        "dead_letters, or choose a shorter group of ASCII letters, digits, '.', '_' and '-'",
    )
    yield _Fault(
        is_aside and config.dead_letter_topic == config.retry_topic,
        ("dead_letters",),
        f"dead letters cannot go to {config.retry_topic}, which is the retry topic",
    )
    yield _Fault(
        config.dead_letter_topic == config.topic,
        ("dead_letters",),
        f"dead letters cannot go to {config.topic}, because the function would handle them again and again",
    )


def _may_name_topic(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _acknowledgements(config: TriggerConfig, given: Collection[str]) -> Iterator[_Fault]:
    for name, what in (
        ("open_events_max", "the number of open events"),
        ("acknowledgement_timeout", "the time for an acknowledgement"),
    ):
        yield _Fault(
            name in given and not config.is_explicit,
            (name,),
            f"{what} has no effect, because an event is acknowledged when the function returns: "
            "choose explicit acknowledgement",
        )


def _transactions(config: TriggerConfig) -> Iterator[_Fault]:
    overtaken = "so no offset tells which records a transaction covers"
    yield _Fault(
        config.order is Order.KEY,
        ("guarantee", "order"),
        f"exactly-once works with the order by shard only: by key, records overtake each other, {overtaken}",
    )
    yield _Fault(
        config.is_explicit,
        ("guarantee", "acknowledgement"),
        "exactly-once works with automatic acknowledgement only: with another one, events are acknowledged in any "
        f"order, {overtaken}",
    )
    yield _Fault(
        config.retry.mode is RetryMode.ASIDE,
        ("guarantee", "retry_mode"),
        f"exactly-once works with retries in-order only: aside, later records overtake the failed one, {overtaken}",
    )
    yield _Fault(
        config.commit_interval > COMMIT_SECONDS_MAX,
        ("commit_interval", "guarantee"),
        f"with exactly-once the commit interval is at most {duration_text(COMMIT_SECONDS_MAX)}, because readers of "
        "committed records wait for each transaction",
    )
