"""The topics of failed records, which the replica creates when it needs them: dead letters and retries."""

import trio

from tailrace.client.missing_topics import create_missing
from tailrace.client.spu_client import SpuClient
from tailrace.runtime.logs import FilteringBoundLogger


class SideTopics:
    """Creates topics after the model of the topic that the trigger reads."""

    def __init__(self, spus: SpuClient, model: str, logger: FilteringBoundLogger) -> None:
        """Takes an `SpuClient` that nothing else uses."""
        self._spus = spus
        self._model = model
        self._logger = logger
        self._known: set[str] = set()
        self._turn = trio.Lock()
        """Held during a request: a connection carries one at a time."""

    async def ensure(self, topic: str) -> None:
        """Creates a topic unless it exists. Raises UnreachableError and RefusedError."""
        if topic in self._known:
            return
        async with self._turn:
            if await create_missing(self._spus, topic, self._model):
                self._logger.info("side_topic_created", created=topic, model=self._model)
            self._known.add(topic)

    def close(self) -> None:
        """Closes the connections."""
        self._spus.close()
