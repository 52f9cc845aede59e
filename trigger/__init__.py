"""Functions that run for every record of a stream: `@trigger`, and the replicas and workers that call it.

This package is a client of a cluster. `replica/` reads shards and keeps what is handled; `membership/` decides which
replica handles which shard; `shards/` decides what is handled next and what is marked; `pool/` runs worker processes;
`worker/` is the program of such a process; `functions/` is what users import. The names here are imported when they
are first used, so that `import tailrace.trigger` costs nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config.trigger_config import Retry, RetryMode
    from .config.trigger_settings import TriggerConfigError
    from .functions.trigger_decorator import trigger
    from .worker.context import Context
    from .worker.event import Event

__all__ = ["Context", "Event", "Retry", "RetryMode", "TriggerConfigError", "trigger"]

_MODULES = {
    "Context": "worker.context",
    "Event": "worker.event",
    "Retry": "config.trigger_config",
    "RetryMode": "config.trigger_config",
    "TriggerConfigError": "config.trigger_settings",
    "trigger": "functions.trigger_decorator",
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
