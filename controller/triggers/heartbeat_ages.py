"""Measures the ages of the heartbeats in the state objects of streams, with the clock of the active SC alone.

Members write times of their own clocks, which nobody compares. The SC notes when it first sees each heartbeat. So an
age is a lower bound of the time since the member wrote it, also after another SC has become active and begins at 0.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tailrace.controller.objects.objects import StreamAttribute
from tailrace.controller.state.events import Removed, Stored
from tailrace.controller.state.object_codec import key_of

from .stream_attributes import AttributeFaultError, heartbeats_in


class SeenHeartbeat(NamedTuple):
    """A heartbeat of a member, and when the SC first saw it."""

    last_heartbeat: str
    seen_at: float


class HeartbeatAges:
    def __init__(self) -> None:
        self._seen: dict[str, dict[str, SeenHeartbeat]] = {}

    def note(self, event: Stored | Removed, now: float) -> None:
        """Takes note of the heartbeats in an attribute that was stored, or forgets those of one that was removed."""
        if isinstance(event, Removed):
            self._seen.pop(event.key, None)
        elif isinstance(event.object, StreamAttribute):
            key = key_of(event.object)
            self._seen[key] = _seen(event.object.text, self._seen.get(key, {}), now)

    def ages_of(self, attribute: StreamAttribute, now: float) -> Mapping[str, float]:
        """Returns the age of the heartbeat of each member in seconds."""
        return {member: now - seen.seen_at for member, seen in self._seen.get(key_of(attribute), {}).items()}


def _seen(text: str, before: Mapping[str, SeenHeartbeat], now: float) -> dict[str, SeenHeartbeat]:
    try:
        heartbeats = heartbeats_in(text)
    except AttributeFaultError:  # Something else than a member has written it. Members refuse it as well.
        return {}
    return {
        member: before[member]
        if member in before and before[member].last_heartbeat == last_heartbeat
        else SeenHeartbeat(last_heartbeat, now)
        for member, last_heartbeat in heartbeats.items()
    }
