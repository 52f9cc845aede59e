"""What the tasks of a run have in common: the function, its configuration, and where brokers are. Pure."""

import os
import sys
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource

PYTHON_PATH = "PYTHONPATH"


class RangeWork(Struct, frozen=True):
    """How tasks handle events. The driver sends it with each task."""

    config: TriggerConfig
    source: FunctionSource
    """The function, with the text of its file."""
    brokers: tuple[tuple[str, int], ...] = ()
    """Hosts and ports."""
    member_id: str = ""
    """The name of the driver in the group of the trigger."""
    epochs: Mapping[int, int] = {}
    """The epoch of each shard, which commits carry."""
    ends: Mapping[int, int] = {}
    """Where the micro-batch ends in each shard. Behind its last record are markers of transactions, or records that
    were aborted or deleted."""
    log_level: str = "info"
    log_json: bool = True

    def epoch_of(self, number: int) -> int:
        """Returns the epoch for a shard. One that was just added to the topic has the newest one that is known: if
        another member takes it, the coordinator refuses this epoch."""
        return self.epochs.get(number, max(self.epochs.values(), default=0))


def with_import_path(
    config: TriggerConfig, path: Sequence[str] = sys.path, environment: Mapping[str, str] = os.environ
) -> TriggerConfig:
    """Returns the configuration whose workers import from where this process does.

    An executor may have our code, and modules of the user, only in files that Spark has sent.
    """
    given = config.environment.get(PYTHON_PATH, environment.get(PYTHON_PATH, ""))
    parts = dict.fromkeys([*(part for part in given.split(os.pathsep) if part), *(part for part in path if part)])
    return replace(config, environment={**config.environment, PYTHON_PATH: os.pathsep.join(parts)})
