"""The topics of failed records, which the replica creates when it needs them: dead letters and retries."""

import trio

from tailrace.client.spu_client import SpuClient
from tailrace.runtime.logs import FilteringBoundLogger

from .missing_topics import ensure_topic


class SideTopics:
    """Creates topics after the model of the topic that the trigger reads."""

    def __init__(self, spus: SpuClient, model: str, logger: FilteringBoundLogger) -> None:
        """Takes an `SpuClient` that nothing else uses."""
        self._spus = spus
        self._model = model
        self._logger = logger
        self._known: dict[str, int] = {}
        """How many partitions each topic has, as far as is known."""
        self._turn = trio.Lock()
        """Held during a request: a connection carries one at a time."""

    async def ensure(self, topic: str, partitions: int = 1) -> None:
        """Creates a topic unless it exists, and adds partitions if it has fewer than `partitions`.

        Raises UnreachableError and RefusedError.
        """
        async with self._turn:
            if self._known.get(topic, 0) >= partitions:
                return
            found = await ensure_topic(self._spus, topic, self._model, partitions)
            self._known[topic] = found.partitions
            if not found.before:
                self._logger.info("side_topic_created", created=topic, model=self._model)
            elif found.before < found.partitions:
                self._logger.info("side_topic_extended", extended=topic, partitions=found.partitions)

    def forget(self, topic: str) -> None:
        """Looks for a topic again the next time, because it may have been deleted."""
        self._known.pop(topic, None)

    def close(self) -> None:
        """Closes the connections."""
        self._spus.close()
