"""The documents of triggers, and of the attributes in the state objects of streams."""

import re

from tailrace.runtime.network import Address
from tailrace.runtime.settings import SettingsError, parse_address

from .document_fields import INT_MAX, FieldError, Fields, shown, whole_number
from .objects import (
    TRIGGER_REPLICAS_MAX,
    FunctionSnapshot,
    StreamAttribute,
    Trigger,
    TriggerResolution,
    TriggerSpec,
    TriggerStatus,
)
from .spu_documents import Document

NAME_CHARACTERS_MAX = 100
PORT_MAX = 65535
RUN_BY_HAND = "trigger-run-by-hand"
"""The kind under which triggers are listed that are not deployed, whose replicas people have started."""
HIDDEN = "********"
"""What commands show in place of a secret."""
SOURCE_CHARACTERS_MAX = 256 * 1024

_NAME = rf"[a-zA-Z0-9_-][a-zA-Z0-9._-]{{0,{NAME_CHARACTERS_MAX - 1}}}"


def trigger_document(trigger: Trigger) -> Document:
    """Returns a trigger as a document."""
    spec, function = trigger.spec, trigger.spec.function
    snapshot: Document = {"path": function.path}
    for name, value in (("handler", function.handler), ("directory", function.directory), ("python", function.python)):
        if value is not None:
            snapshot[name] = value
    snapshot["source"] = function.source
    document: Document = {"topic": spec.topic, "group": spec.group, "replicas": spec.replicas}
    if spec.min_replicas is not None:
        document["minReplicas"] = spec.min_replicas
    if spec.paused:
        document["paused"] = True
    if spec.metrics is not None:
        document["metrics"] = str(spec.metrics)
    document |= {"revision": spec.revision, "function": snapshot, "config": dict(spec.config)}
    status: Document = {"resolution": trigger.status.resolution.value}
    if trigger.status.reason:
        status["reason"] = trigger.status.reason
    status["revisions"] = list(trigger.status.revisions)
    return {"name": trigger.name, "spec": document, "status": status}


def read_trigger(whole: Fields, spec: Fields) -> Trigger:
    """Reads a trigger. Raises FieldError."""
    name = whole.text("name")
    if re.fullmatch(_NAME, name) is None:
        raise whole.fault(
            "name",
            f"{shown(name)} cannot name a trigger: 1 to {NAME_CHARACTERS_MAX} ASCII letters, digits, '.', '_' "
            "and '-', and no dot at the start",
        )
    trigger_spec = TriggerSpec(
        spec.text("topic"),
        spec.text("group"),
        _function(spec.fields("function")),
        _config(spec),
        spec.number("replicas", 1, TRIGGER_REPLICAS_MAX, default=1),
        _min_replicas(spec),
        spec.flag("paused", False),
        spec.number("revision", 1, INT_MAX, default=1),
        _metrics(spec),
    )
    status = whole.fields("status")
    trigger_status = TriggerStatus(
        status.choice("resolution", TriggerResolution, TriggerResolution.NONE),
        status.text("reason", ""),
        _revisions(status),
    )
    for listed in ("replicas", "shards"):  # They are shown with the object, and are not a part of it.
        status.raw(listed)
    status.end()
    return Trigger(name, trigger_spec, trigger_status)


def check_trigger(trigger: Trigger) -> None:
    """Refuses fields of a trigger that do not fit together. Raises FieldError."""
    spec = trigger.spec
    if not spec.group:
        raise FieldError("group: it is empty")
    if spec.min_replicas is not None and spec.min_replicas > spec.replicas:
        raise FieldError(f"minReplicas: {spec.min_replicas} is more than replicas, {spec.replicas}")
    if spec.metrics is not None and spec.metrics.port + spec.replicas - 1 > PORT_MAX:
        raise FieldError(
            f"metrics: {spec.metrics} leaves no ports for {spec.replicas} replicas, which have one after the other"
        )
    if len(spec.function.source) > SOURCE_CHARACTERS_MAX:
        raise FieldError(
            f"function.source: it has {len(spec.function.source)} characters; at most {SOURCE_CHARACTERS_MAX} are "
            "allowed: move parts of it into modules that it imports"
        )


def _function(function: Fields) -> FunctionSnapshot:
    snapshot = FunctionSnapshot(
        function.text("path"),
        function.text("source"),
        function.optional_text("handler"),
        function.optional_text("directory"),
        function.optional_text("python"),
    )
    function.end()
    return snapshot


def _min_replicas(spec: Fields) -> int | None:
    value = spec.raw("minReplicas")
    return None if value is None else whole_number(value, spec, "minReplicas", 1, TRIGGER_REPLICAS_MAX)


def _metrics(spec: Fields) -> Address | None:
    text = spec.optional_text("metrics")
    if text is None:
        return None
    try:
        return parse_address(text, spec.path_of("metrics"))
    except SettingsError as error:
        raise FieldError(str(error)) from error


def _config(spec: Fields) -> dict[str, object]:
    value = spec.raw("config")
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value):
        raise spec.fault("config", f"{shown(value)} is not a mapping of names")
    return value


def _revisions(status: Fields) -> tuple[int, ...]:
    value = status.raw("revisions")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(each) is int and each > 0 for each in value):
        raise status.fault("revisions", f"{shown(value)} is not a list of revisions")
    return tuple(value)


def stream_attribute_document(attribute: StreamAttribute) -> Document:
    """Returns an attribute of a stream's state object as a document."""
    return {"topic": attribute.topic, "group": attribute.group, "spec": {"attribute": attribute.text}}


def read_stream_attribute(whole: Fields, spec: Fields) -> StreamAttribute:
    """Reads an attribute of a stream's state object. Raises FieldError."""
    topic = whole.text("topic")
    if not topic or "/" in topic:
        raise whole.fault("topic", f"{shown(topic)} cannot name a topic")
    return StreamAttribute(topic, whole.text("group"), spec.text("attribute"))
