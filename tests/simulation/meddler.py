"""A client in a simulation that changes a topic's configs now and then, and deletes and recreates the topic."""

from collections.abc import Mapping, Sequence
from random import Random

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, InternalApiKey
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from .patient_client import CHANGED_LATER, PatientClient, RetryError
from .world import World, sc_address

ALTER_VERSION = 1
DELETE_VERSION = 6
UNDELETE_VERSION = 0
TOPIC_RESOURCE = 2
PAUSE_SECONDS_MAX = 3.0
GONE_SECONDS_MAX = 2.0
LATE_SECONDS = 10.0
"""How long a server may take to carry out a request after its client has gone."""


class Meddler:
    def __init__(self, world: World, topic: str, configs: Mapping[str, Sequence[str]], chance: Random) -> None:
        """Prepares the client; `configs` has the configs that it may set, with their possible values."""
        self.client = PatientClient(world, "meddler", chance)
        self._scs = list(world.scs)
        self._topic = topic
        self._configs = configs
        self._chance = chance
        self._asked_at = -LATE_SECONDS
        """When the client last asked to delete the topic."""
        self.is_done = False

    async def run(self, is_over: trio.Event) -> None:
        while not is_over.is_set():
            with trio.move_on_after(self._chance.uniform(0, PAUSE_SECONDS_MAX)):
                await is_over.wait()
            if self._chance.random() < 0.5:
                async with self.client.trying():
                    await self._delete()
                await trio.sleep(self._chance.uniform(0, GONE_SECONDS_MAX))
                await self._bring_back()
            else:
                async with self.client.trying():
                    await self._alter()
        while trio.current_time() < self._asked_at + LATE_SECONDS:
            await trio.sleep(1.0)
            await self._bring_back()
        self.is_done = True

    async def _alter(self) -> None:
        name = self._chance.choice(sorted(self._configs))
        config = AlterableConfig(name, value=self._chance.choice(self._configs[name]))
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, self._topic, [config])])
        async with self.client.connected(self.client.any_spu()) as connected:
            response = await self.client.ask(
                connected, ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, request, more_seconds=1.0
            )
        self._check(response.responses[0].error_code)

    async def _delete(self) -> None:
        self._asked_at = trio.current_time()
        request = DeleteTopicsRequest([DeleteTopicState(self._topic)], timeout_ms=1000)
        async with self.client.connected(self.client.any_spu()) as connected:
            response = await self.client.ask(connected, ApiKey.DELETE_TOPICS, DELETE_VERSION, request, more_seconds=1.0)
        self._check(response.responses[0].error_code)

    async def _bring_back(self) -> None:
        """Recreates the topic; returns once it exists, even if it was never deleted."""
        is_there = False
        while not is_there:
            async with self.client.trying():
                sc = sc_address(self._chance.choice(self._scs))
                async with self.client.connected_to(sc, SC_OBJECT_APIS) as connected:
                    request = UndeleteTopicRequest(self._topic)
                    response = await self.client.ask(
                        connected, InternalApiKey.UNDELETE_TOPIC, UNDELETE_VERSION, request, more_seconds=3.0
                    )
                if response.error_code not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self._check(response.error_code)
                is_there = True

    def _check(self, code: int) -> None:
        if code in CHANGED_LATER:
            raise RetryError(ErrorCode(code).name)
        assert code == ErrorCode.NONE, f"{self.client.name} does not expect {ErrorCode(code).name}"
