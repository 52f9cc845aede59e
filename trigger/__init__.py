"""Functions that run for every record of a stream: `@trigger`, and the replicas and workers that call it.

This package is a client of a cluster. `replica/` reads shards and keeps what is handled; `membership/` decides which
replica handles which shard; `shards/` decides what is handled next and what is marked; `pool/` runs worker processes;
`worker/` is the program of such a process; `functions/` is what users import. The names here are imported when they
are first used, so that `import tailrace.trigger` costs nothing.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .config.trigger_config import Retry, RetryMode
    from .config.trigger_settings import TriggerConfigError
    from .functions.trigger_decorator import trigger
    from .worker.context import Context
    from .worker.event import Event

__all__ = ["Context", "Event", "Retry", "RetryMode", "TriggerConfigError", "trigger"]

__getattr__ = lazy_names(
    __name__,
    {
        "Context": "worker.context",
        "Event": "worker.event",
        "Retry": "config.trigger_config",
        "RetryMode": "config.trigger_config",
        "TriggerConfigError": "config.trigger_settings",
        "trigger": "functions.trigger_decorator",
    },
)
