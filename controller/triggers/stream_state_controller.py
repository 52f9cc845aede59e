"""The controller of the state objects of streams: removes the state object of a topic that is deleted."""

from collections.abc import Iterator

from tailrace.controller.objects.objects import Topic
from tailrace.controller.state.actions import Action, Delete
from tailrace.controller.state.local_store import Change, LocalStore


class StreamStateController:
    """Decides about state objects when topics are deleted."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._unknown: frozenset[str] = frozenset()
        """Topics with a state object that were missing in the store at the last reconciliation."""

    def on_topic(self, change: Change[Topic]) -> Iterator[Action]:
        previous, current = change.previous, change.current
        if previous is not None and (current is None or current.id != previous.id):
            yield from self._remove(previous.name)

    def reconcile(self) -> Iterator[Action]:
        """Removes state objects without a topic.

        A topic must be missing at two reconciliations. At the first one, the reader may be between two keys.
        """
        unknown = [name for name in self._store.topics_with_stream_state if name not in self._store.topics]
        for name in unknown:
            if name in self._unknown:
                yield from self._remove(name)
        self._unknown = frozenset(unknown)

    def _remove(self, topic: str) -> Iterator[Action]:
        yield from map(Delete, self._store.stream_state_of(topic).values())
