"""What each setting of a trigger does on Spark: it holds there too, it has no effect, or it is refused. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from tailrace.pipeline.jobs.job_errors import WrongUsageError
from tailrace.trigger.config.trigger_config import Order, RetryMode, TriggerConfig


class EngineSettingsError(WrongUsageError):
    """A setting that a trigger cannot have on Spark. The message is one sentence."""


class Way(StrEnum):
    """A way to run the function of a trigger on Spark."""

    STREAM = "stream"
    """`tailrace trigger run --engine spark`."""
    BACKFILL = "backfill"
    """`tailrace trigger backfill`."""


class Treatment(NamedTuple):
    """What becomes of a setting on Spark."""

    holds: frozenset[Way]
    """Where the setting has its effect. Elsewhere it has none, which is logged once."""
    note: str


_BOTH = frozenset(Way)
_STREAM = frozenset({Way.STREAM})
_NOWHERE: frozenset[Way] = frozenset()

TREATMENTS: Mapping[str, Treatment] = {
    "name": Treatment(_BOTH, "as live"),
    "topic": Treatment(_BOTH, "as live"),
    "group": Treatment(_BOTH, "as live"),
    "brokers": Treatment(_BOTH, "as live; a backfill into an archive needs none"),
    "replicas": Treatment(_NOWHERE, "Spark decides how many tasks run at once"),
    "min_replicas": Treatment(_NOWHERE, "Spark decides how many tasks run at once"),
    "max_workers": Treatment(_BOTH, 'with order="key": worker processes of each task; otherwise a task has one'),
    "seek_to": Treatment(_STREAM, "as live; a backfill begins at --from"),
    "read_batch_size": Treatment(_STREAM, "a micro-batch takes this many records of each shard, on average"),
    "polling_interval": Treatment(_STREAM, "the time between the starts of two micro-batches"),
    "session_timeout": Treatment(_STREAM, "as live, for the driver"),
    "heartbeat_interval": Treatment(_STREAM, "as live, for the driver"),
    "commit_interval": Treatment(_BOTH, "as live; a backfill that is not exactly-once notes each chunk that is done"),
    "batch_size": Treatment(_BOTH, "as live; the last list of a micro-batch or of a chunk may be shorter"),
    "batch_seconds": Treatment(_NOWHERE, "a list is full, or the last one of its micro-batch or chunk"),
    "event_timeout": Treatment(_BOTH, "as live"),
    "stop_timeout": Treatment(_STREAM, "how long the running micro-batch may take to end at a stop"),
    "order": Treatment(_BOTH, "as live"),
    "guarantee": Treatment(_BOTH, "as live; output in an archive is exactly once anyway"),
    "acknowledgement": Treatment(_BOTH, "as live; a micro-batch or chunk ends when all its events are acknowledged"),
    "open_events_max": Treatment(_BOTH, "as live"),
    "acknowledgement_timeout": Treatment(_BOTH, "as live"),
    "retry_attempts": Treatment(_BOTH, "as live"),
    "retry_backoff": Treatment(_BOTH, "as live"),
    "retry_mode": Treatment(
        _BOTH, "`in-order` as live; `aside` is refused, because only replicas read the retry topic"
    ),
    "retry_max_age": Treatment(_STREAM, "as live; in a backfill every record is old"),
    "split_batch": Treatment(_BOTH, "as live"),
    "on_exhausted": Treatment(_BOTH, "as live; `stop` ends the job with status 1 after the other shards"),
    "dead_letters": Treatment(_BOTH, "as live"),
    "worker_memory_max": Treatment(_BOTH, "as live"),
    "access_key": Treatment(_BOTH, "as live, also for Spark's Kafka source"),
    "access_user": Treatment(_BOTH, "as live"),
    "environment": Treatment(_BOTH, "as live"),
}
"""All settings, by the names of the decorator. The page about the pipeline has the same table."""

_OF_RETRY = {"retry_max_age": "max_age"}


def without_effect(config: TriggerConfig, way: Way) -> list[str]:
    """Returns the settings that the trigger has, and that change nothing on Spark."""
    default = TriggerConfig(name=config.name, topic=config.topic, group=config.group)
    found = [
        name
        for name, treatment in TREATMENTS.items()
        if way not in treatment.holds and _value(config, name) != _value(default, name)
    ]
    if config.order is Order.SHARD and config.max_workers > 1:
        found.append("max_workers")
    is_by_chunk = way is Way.BACKFILL and not config.is_exactly_once
    if is_by_chunk and config.commit_interval != default.commit_interval:
        found.append("commit_interval")
    return sorted(found)


def engine_config(config: TriggerConfig, way: Way) -> TriggerConfig:
    """Returns the configuration with which tasks handle events. Raises EngineSettingsError."""
    if config.retry.mode is RetryMode.ASIDE:
        raise EngineSettingsError(
            "retry_mode aside: only replicas read the retry topic, so its events would wait for ever; use in-order"
        )
    retry = config.retry if way in TREATMENTS["retry_max_age"].holds else replace(config.retry, max_age=None)
    return replace(
        config, replicas=1, min_replicas=None, read_batch_size=0, polling_interval=0.0, batch_seconds=inf, retry=retry
    )


def workers_of_task(config: TriggerConfig) -> int:
    """Returns how many worker processes a task has. Without an order by key a shard keeps only one busy."""
    return config.max_workers if config.order is Order.KEY else 1


def _value(config: TriggerConfig, name: str) -> object:
    return getattr(config.retry, _OF_RETRY[name]) if name in _OF_RETRY else getattr(config, name)
