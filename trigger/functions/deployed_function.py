"""The document of a deployed trigger, which `deploy` stores in the Streaming Controller (SC) and replicas read."""

from typing import Any

from msgspec import Struct

from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.config.trigger_settings import TriggerConfigError, config_document, config_of_document

from .function_source import FunctionSource, with_snapshot

KIND = "trigger"
_MADE_OF_FIELDS = ("replicas", "min_replicas")
"""Settings that the document has as fields of its own, because commands change them."""


class DeployedFunction(Struct, frozen=True):
    """A deployed trigger as its replicas need it."""

    config: TriggerConfig
    source: FunctionSource
    revision: int


def deployed_document(
    config: TriggerConfig, source: FunctionSource, python: str | None, metrics: str | None = None
) -> dict[str, Any]:
    """Returns the document of a trigger, with a snapshot of the function's file.

    `python` is the interpreter of the replicas, and `metrics` the address of the first one's metrics. Raises
    FunctionLoadError.
    """
    snapshot = with_snapshot(source)
    function = {"path": snapshot.path, "handler": snapshot.handler, "directory": snapshot.directory, "python": python}
    spec: dict[str, Any] = {"topic": config.topic, "group": config.group, "replicas": config.replicas}
    if config.min_replicas is not None:
        spec["minReplicas"] = config.min_replicas
    if metrics is not None:
        spec["metrics"] = metrics
    spec["function"] = {name: value for name, value in function.items() if value is not None}
    spec["function"]["source"] = snapshot.source
    spec["config"] = {name: value for name, value in config_document(config).items() if name not in _MADE_OF_FIELDS}
    return {"kind": KIND, "name": config.name, "spec": spec}


def read_deployed(document: dict[str, Any]) -> DeployedFunction:
    """Reads the document of a trigger that the SC has. Raises TriggerConfigError."""
    try:
        spec, function = document["spec"], document["spec"]["function"]
        config = {
            **spec["config"],
            "name": document["name"],
            "topic": spec["topic"],
            "group": spec["group"],
            "replicas": spec["replicas"],
            "min_replicas": spec.get("minReplicas"),
        }
        source = FunctionSource(
            function["path"], function.get("handler"), function["source"], function.get("directory")
        )
        revision = int(spec["revision"])
    except (KeyError, TypeError, ValueError) as error:
        raise TriggerConfigError(f"the stored trigger cannot be read: {error!r}") from error
    return DeployedFunction(config_of_document(config), source, revision)
