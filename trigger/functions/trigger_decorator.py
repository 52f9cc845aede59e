"""The decorator `@trigger`, which says for which stream a function is meant and how its records are handled.

The decorated function stays a plain function that tests can call. This module imports neither Trio nor YAML, because
every worker process and every unit test of a function imports it.
"""

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

from tailrace.trigger.config.trigger_config import Retry
from tailrace.trigger.config.trigger_settings import RETRY_FIELDS, Given, Layer, TriggerConfigError, read_layer

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__tailrace_trigger__"
Duration = float | str
"""Seconds, or a text such as `500ms` or `1h30m`."""


def trigger(
    topic: str | None = None,
    *,
    name: str | None = None,
    group: str | None = None,
    brokers: str | Sequence[str] | None = None,
    replicas: int | None = None,
    min_replicas: int | None = None,
    max_workers: int | None = None,
    seek_to: str | None = None,
    read_batch_size: int | None = None,
    polling_interval: Duration | None = None,
    session_timeout: Duration | None = None,
    heartbeat_interval: Duration | None = None,
    commit_interval: Duration | None = None,
    batch_size: int | None = None,
    batch_seconds: Duration | None = None,
    event_timeout: Duration | None = None,
    stop_timeout: Duration | None = None,
    order: str | None = None,
    guarantee: str | None = None,
    acknowledgement: str | None = None,
    open_events_max: int | None = None,
    acknowledgement_timeout: Duration | None = None,
    retry: Retry | int | None = None,
    on_exhausted: str | None = None,
    dead_letters: str | None = None,
    worker_memory_max: int | str | None = None,
    access_key: str | None = None,
    access_user: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Makes a decorator for a function `def NAME(context, event)` that handles the records of `topic`.

    Files and flags override what is given here. `retry` is a `Retry`, or the number of attempts. The function gets
    lists of events if `batch_size` is given. Raises TriggerConfigError for a value that is not allowed.
    """
    given: dict[str, Any] = {setting: value for setting, value in locals().items() if value is not None}

    def decorate(function: F) -> F:
        if not isinstance(function, FunctionType):
            raise TriggerConfigError(f"@trigger belongs on a function, not on {function!r:.100}")
        code = function.__code__
        place = f"{code.co_filename}: line {code.co_firstlineno}: @trigger"
        setattr(function, _ATTRIBUTE, read_layer(_layer(given, place)))
        return function

    if callable(topic):
        raise TriggerConfigError('@trigger stands without arguments: write @trigger("TOPIC")')
    return decorate


def declared(function: object) -> Layer | None:
    """Returns the settings that `@trigger` gave to the function; None for a function without it."""
    layer: Layer | None = getattr(function, _ATTRIBUTE, None)
    return layer


def _layer(given: Mapping[str, Any], place: str) -> Layer:
    values = dict(given)
    retry = values.pop("retry", None)
    if isinstance(retry, Retry):
        default = Retry()
        values |= {
            setting: getattr(retry, field)
            for setting, field in RETRY_FIELDS.items()
            if getattr(retry, field) != getattr(default, field)
        }
    elif retry is not None:
        values["retry_attempts"] = retry
    return {setting: Given(value, f"{place}: {_argument(setting)}") for setting, value in values.items()}


def _argument(setting: str) -> str:
    """Returns the words by which the author of the file knows the setting."""
    return f"retry: {RETRY_FIELDS[setting]}" if setting in RETRY_FIELDS else setting
