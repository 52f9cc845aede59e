"""The records of the internal topic: keys and values in Kafka's own formats."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GroupRecord:
    key: Any
    value: Any | None
    """None is a tombstone."""
