"""Writes the configuration of a trigger in Nuclio's shape, which `function_yaml.py` reads back as it was. Pure.

Settings with their default values are left out, except the session timeout and the heartbeat interval, which Nuclio's
dashboard hides although a person needs them to understand how fast shards move.
"""

from collections.abc import Mapping
from typing import Any

from .nuclio_fields import ACKNOWLEDGEMENT_MODES, camel
from .trigger_config import Retry, TriggerConfig

TRIGGER = "stream"
"""The name of the only trigger of the document."""
_DURATIONS = ("commit_interval", "acknowledgement_timeout")
_OTHERS = ("order", "guarantee", "on_exhausted", "open_events_max", "dead_letters", "worker_memory_max")


def function_document(config: TriggerConfig, handler: str | None = None) -> dict[str, Any]:
    """Returns the document of a function with this trigger. `handler` is `module:function`."""
    spec: dict[str, Any] = {} if handler is None else {"handler": handler}
    if config.min_replicas is None:
        spec["replicas"] = config.replicas
    else:
        spec |= {"minReplicas": config.min_replicas, "maxReplicas": config.replicas}
    if _is_chosen(config, "event_timeout"):
        spec["eventTimeout"] = _duration(config.event_timeout)
    if config.environment:
        spec["env"] = [{"name": name, "value": value} for name, value in config.environment.items()]
    spec["triggers"] = {TRIGGER: _trigger(config)}
    return {"apiVersion": "nuclio.io/v1", "kind": "NuclioFunction", "metadata": {"name": config.name}, "spec": spec}


def _trigger(config: TriggerConfig) -> dict[str, Any]:
    trigger: dict[str, Any] = {"kind": "kafka-cluster", "numWorkers": config.max_workers}
    if config.access_key is not None and config.access_user is None:
        trigger["password"] = config.access_key
    if _is_chosen(config, "stop_timeout"):
        trigger["workerTerminationTimeout"] = _duration(config.stop_timeout)
    if config.is_explicit:
        trigger["explicitAckMode"] = ACKNOWLEDGEMENT_MODES[config.acknowledgement]
    if config.batch_size:
        batch = {"mode": "enable", "batchSize": config.batch_size, "timeout": _duration(config.batch_seconds)}
        trigger["batch"] = batch
    trigger["attributes"] = _attributes(config)
    return trigger


def _attributes(config: TriggerConfig) -> dict[str, Any]:
    attributes: dict[str, Any] = {"topics": [config.topic], "consumerGroup": config.group}
    if config.brokers:
        attributes["brokers"] = list(config.brokers)
    if config.access_user is not None:
        attributes["sasl"] = {"enable": True, "user": config.access_user, "password": config.access_key}
    attributes["seekTo"] = str(config.seek_to)
    if config.read_batch_size:
        attributes["readBatchSize"] = config.read_batch_size
    if config.polling_interval:
        attributes["pollingInterval"] = _duration(config.polling_interval)
    attributes["sessionTimeout"] = _duration(config.session_timeout)
    attributes["heartbeatInterval"] = _duration(config.heartbeat_interval)
    for name in (*_DURATIONS, *_OTHERS):
        if _is_chosen(config, name):
            value = getattr(config, name)
            attributes[camel(name)] = _duration(value) if name in _DURATIONS else _scalar(value)
    if retry := _retry(config.retry):
        attributes["retry"] = retry
    return attributes


def _retry(retry: Retry) -> dict[str, Any]:
    default = Retry()
    texts: Mapping[str, Any] = {
        "attempts": retry.attempts,
        "backoff": "..".join(map(_duration, retry.backoff)),
        "mode": str(retry.mode),
        "max_age": None if retry.max_age is None else _duration(retry.max_age),
        "split_batch": retry.split_batch,
    }
    return {camel(name): text for name, text in texts.items() if getattr(retry, name) != getattr(default, name)}


def _is_chosen(config: TriggerConfig, name: str) -> bool:
    """Whether the value differs from the default."""
    defaults = TriggerConfig(name=config.name, topic=config.topic, group=config.group)
    return bool(getattr(config, name) != getattr(defaults, name))


def _scalar(value: int | str) -> int | str:
    """Returns a value as YAML and JSON have it: words of an enumeration become texts."""
    return str(value) if isinstance(value, str) else value


def _duration(seconds: float) -> str:
    """Formats a duration without loss down to a nanosecond."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
