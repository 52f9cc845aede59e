"""The table of a trigger's settings, and how values from several sources become one checked configuration. Pure.

A source, such as a decorator, a file or the flags, gives some settings by their names in this table, each with the
place where it was given. A later source overrides an earlier one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from tailrace.cluster.similar_names import similar

from .config_checks import ConfigCheckError, check_config
from .setting_values import (
    Reader,
    ValueRefusedError,
    addresses,
    backoff,
    choice,
    group_name,
    seconds,
    shown,
    size,
    some_text,
    topic_name,
    trigger_name,
    variables,
    whole,
    yes_or_no,
)
from .trigger_config import Acknowledgement, Guarantee, OnExhausted, Order, Retry, RetryMode, SeekTo, TriggerConfig

MIB = 1024**2


class TriggerConfigError(Exception):
    """The configuration of a trigger is wrong. The message is one sentence: where, what, and what is allowed."""


class Given(NamedTuple):
    """A value as a source gave it."""

    value: object
    place: str
    """Where the value was given, for errors: `function.yaml: line 7: maxWorkers`, or `--max-workers`."""


Layer = Mapping[str, Given]
"""What one source gives, by the names of the settings."""


class Setting(Struct, frozen=True):
    """One setting of a trigger."""

    read: Reader
    metavar: str
    help: str


SETTINGS: Mapping[str, Setting] = {
    "name": Setting(trigger_name, "NAME", "Name of the trigger (default: the name of the function)."),
    "topic": Setting(topic_name, "TOPIC", "The topic whose records the function handles."),
    "group": Setting(group_name, "GROUP", "The consumer group whose offsets are committed (default: the name)."),
    "brokers": Setting(addresses, "HOST:PORT[,HOST:PORT]", "Brokers of the topic (default: those of the cluster)."),
    "replicas": Setting(whole(1, 1000), "N", "Number of replicas that share the shards (default: 1)."),
    "min_replicas": Setting(
        whole(1, 1000), "N", "Smallest number of replicas; the number follows the lag from there up to --replicas."
    ),
    "max_workers": Setting(whole(1, 256), "N", "Worker processes of each replica (default: 1)."),
    "seek_to": Setting(
        choice(SeekTo), "WHERE", "Where a shard without committed offset begins: earliest or latest (default)."
    ),
    "read_batch_size": Setting(whole(1, 100_000), "N", "Largest number of records in one read (default: no limit)."),
    "polling_interval": Setting(
        seconds(0, 3600), "DURATION", "Pause between two reads of a shard (default: none; a read waits for records)."
    ),
    "session_timeout": Setting(
        seconds(0.1, 3600), "DURATION", "How long a replica keeps its shards without a heartbeat (default: 10s)."
    ),
    "heartbeat_interval": Setting(seconds(0.02, 3600), "DURATION", "Time between two heartbeats (default: 3s)."),
    "commit_interval": Setting(seconds(0.01, 3600), "DURATION", "Time between two commits of offsets (default: 1s)."),
    "batch_size": Setting(whole(1, 100_000), "N", "Give the function lists of up to N events."),
    "batch_seconds": Setting(seconds(0, 3600), "DURATION", "How long a list of events waits until it is full."),
    "event_timeout": Setting(
        seconds(0.01, 7 * 86400), "DURATION", "How long the function may take for one event (default: 1m)."
    ),
    "stop_timeout": Setting(
        seconds(0, 3600), "DURATION", "How long running events may take to end at a stop (default: 10s)."
    ),
    "order": Setting(
        choice(Order), "ORDER", "What is handled in order: the records of a shard (default), or of each key."
    ),
    "guarantee": Setting(
        choice(Guarantee), "GUARANTEE", "How often output is stored: at-least-once (default) or exactly-once."
    ),
    "acknowledgement": Setting(
        choice(Acknowledgement),
        "MODE",
        "When an event is acknowledged: automatic (default) or explicit, by the function; or either.",
    ),
    "open_events_max": Setting(
        whole(1, 1_000_000),
        "N",
        "Largest number of events of a shard that wait for an acknowledgement (default: 1000).",
    ),
    "acknowledgement_timeout": Setting(
        seconds(0.1, 7 * 86400),
        "DURATION",
        "Time after which an event without acknowledgement is handed out again (default: 1m).",
    ),
    "retry_attempts": Setting(whole(1, 1_000_000), "N", "How many times an event is tried in total (default: 5)."),
    "retry_backoff": Setting(backoff, "FIRST..LONGEST", "Pauses between attempts (default: 100ms..30s)."),
    "retry_mode": Setting(
        choice(RetryMode), "MODE", "in-order (default): the shard waits; aside: a retry topic takes the event."
    ),
    "retry_max_age": Setting(
        seconds(0.001, 365 * 86400), "DURATION", "Age at which a record is not tried again (default: none)."
    ),
    "split_batch": Setting(yes_or_no, "BOOLEAN", "Cut a failed list of events in half to find the bad event."),
    "on_exhausted": Setting(
        choice(OnExhausted), "ACTION", "After the last attempt: dead-letter (default), skip, or stop the shard."
    ),
    "dead_letters": Setting(topic_name, "TOPIC", "Topic of dead letters (default: TOPIC.GROUP.dead)."),
    "worker_memory_max": Setting(
        size(32 * MIB, 1024 * 1024 * MIB), "SIZE", "Memory at which a worker is replaced, such as 512Mi."
    ),
    "access_key": Setting(some_text, "KEY", "Access key for the data, if the brokers ask for one."),
    "access_user": Setting(some_text, "USER", "User of the access key (default: the name of the trigger)."),
    "environment": Setting(variables, "NAME=VALUE", "Environment variable of the workers; may be repeated."),
}
"""All settings, in the order of the help. The names are those of the decorator; flags have dashes."""

RETRY_FIELDS = {
    "retry_attempts": "attempts",
    "retry_backoff": "backoff",
    "retry_mode": "mode",
    "retry_max_age": "max_age",
    "split_batch": "split_batch",
}
"""The settings that are fields of `Retry`."""


def read_layer(given: Layer) -> Layer:
    """Checks and converts each value of a source on its own. Raises TriggerConfigError."""
    return {name: Given(_read(name, each), each.place) for name, each in given.items()}


def _read(name: str, given: Given) -> object:
    assert name in SETTINGS, name
    try:
        return SETTINGS[name].read(given.value)
    except ValueRefusedError as error:
        value = "the access key" if name == "access_key" else shown(given.value)
        raise TriggerConfigError(f"{given.place}: {value} {error}") from error


def merge_layers(layers: Sequence[Layer], *, origin: str) -> TriggerConfig:
    """Makes the configuration from several sources, the most general first. Raises TriggerConfigError.

    `origin` names the function in the error for a missing topic.
    """
    given: dict[str, Given] = {}
    for layer in layers:
        given |= read_layer(layer)
    if "topic" not in given:
        raise TriggerConfigError(
            f'{origin}: the topic is missing: write @trigger("TOPIC"), give --topic, or name a file with --config'
        )
    assert "name" in given, "the function gives a name"
    values: dict[str, Any] = {name: each.value for name, each in given.items()}
    values.setdefault("group", values["name"])
    retry = {RETRY_FIELDS[name]: values.pop(name) for name in RETRY_FIELDS if name in values}
    config = TriggerConfig(**values, retry=Retry(**retry))
    try:
        check_config(config, given.keys())
    except ConfigCheckError as error:
        place = next((given[name].place for name in error.settings if name in given), origin)
        raise TriggerConfigError(f"{place}: {error}") from error
    return config


def config_document(config: TriggerConfig) -> dict[str, Any]:
    """Makes the JSON document in which a deployed trigger's configuration is stored."""
    document: dict[str, Any] = msgspec.to_builtins(config)
    return document


def config_of_document(document: object) -> TriggerConfig:
    """Reads what `config_document` has made. Raises TriggerConfigError."""
    try:
        return msgspec.convert(document, TriggerConfig)
    except msgspec.ValidationError as error:
        raise TriggerConfigError(f"the stored configuration of the trigger cannot be read: {error}") from error


def guess_text(typed: str, names: Sequence[str], spellings: Mapping[str, str] | None = None) -> str:
    """Returns the end of a sentence that names what was perhaps meant, or nothing."""
    found = similar(typed, names)
    return "" if found is None else f"; did you mean {(spellings or {}).get(found, found)}?"
