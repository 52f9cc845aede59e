"""Speaks with the SPUs of a cluster: asks each of them for what is its own, and those again which have it no more.

It speaks nothing but Kafka's protocol, in versions that it agrees upon with each SPU, so that what is asked through it
can be asked of Apache Kafka as well.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import trio

from tailrace import __version__
from tailrace.protocol.apis import API_TABLE, Api
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.runtime.network import Address, Network

from .server_connection import (
    CLIENT_ID,
    RefusedError,
    Role,
    ServerConnection,
    UnreachableError,
    connect,
    connect_to_one_of,
    refusal,
)

PATIENCE_SECONDS = 15.0
"""For how long what is on its way is asked for: longer than an election takes, and a coordinator to load."""
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 2.0

SPU = Role("SPU", "`tailrace spu list` shows which are online")
BOOTSTRAP = Role("SPU", "Name another with --bootstrap")

PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""What a server says that will not say so for long, or is not the one to be asked any more."""
_APIS: Mapping[int, Api] = {**API_TABLE, **SPU_OBJECT_APIS}
_GROUP_KEYS = 0

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")
Place = Callable[[Sequence[Key]], Awaitable[Mapping[Key, int | RefusedError]]]
"""Which SPU has what each key stands for."""
Ask = Callable[[int, Sequence[Key]], Awaitable[Mapping[Key, Answer | RefusedError]]]
"""What one SPU answers for the keys that it has."""


class SpuClient:
    """Connects to each SPU when it is first asked something."""

    def __init__(self, network: Network, bootstrap: Sequence[Address], role: Role) -> None:
        """`bootstrap` are addresses of servers that know the SPUs; `role` says what they are."""
        self._network = network
        self._bootstrap = bootstrap
        self._role = role
        self._guide: _Server | None = None
        self._addresses: dict[int, Address] = {}
        self._servers: dict[int, _Server] = {}

    async def metadata(self, topics: Iterable[str] = ()) -> MetadataResponse:
        """The SPUs that are online, and what is known of these topics."""
        wanted = [MetadataRequestTopic(name=each) for each in topics]
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        response: MetadataResponse = await self._ask_guide(request)
        self._addresses = {each.node_id: Address(each.host, each.port) for each in response.brokers}
        return response

    async def spus(self) -> list[int]:
        return sorted(each.node_id for each in (await self.metadata()).brokers)

    async def ask(self, spu_id: int, request: Any, version_max: int | None = None) -> Any:
        """What the SPU answers, in which nothing was looked at. Raises UnreachableError and RefusedError."""
        if spu_id not in self._servers:
            if spu_id not in self._addresses:
                raise UnreachableError(f"the SPU {spu_id} is not online. {SPU.what_to_do}")
            address = self._addresses[spu_id]
            self._servers[spu_id] = await _meet(await connect(self._network, address, SPU, _APIS))
        try:
            return await self._servers[spu_id].ask(request, version_max)
        except (UnreachableError, trio.Cancelled):
            self._servers.pop(spu_id).close()  # what comes late would be taken for the answer to the next question
            raise

    async def ask_each(
        self, keys: Iterable[Key], place: "Place[Key]", ask: "Ask[Key, Answer]"
    ) -> dict[Key, Answer | RefusedError]:
        """What the SPUs that have the keys answer, in the order of these; all are asked at once. Where one is not ready
        or has a key no more, it is looked for and asked again for a while. Raises UnreachableError."""
        wanted = list(dict.fromkeys(keys))
        unanswered = RefusedError("who was asked has not answered that")
        answers: dict[Key, Answer | RefusedError | UnreachableError] = dict.fromkeys(wanted, unanswered)
        waiting = wanted
        pause = PAUSE_SECONDS_MIN
        patient_until = trio.current_time() + PATIENCE_SECONDS
        while waiting:
            answers.update(await self._ask_once(waiting, place, ask))
            waiting = [key for key in waiting if _may_pass(answers[key])]
            if not waiting or trio.current_time() + pause > patient_until:
                break
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
        found: dict[Key, Answer | RefusedError] = {}
        for key in wanted:
            answer = answers[key]
            if isinstance(answer, UnreachableError):
                raise answer
            found[key] = answer
        return found

    async def coordinators(self, group_ids: Sequence[str]) -> dict[str, int | RefusedError]:
        """A `Place` of groups."""
        request = FindCoordinatorRequest(key_type=_GROUP_KEYS, coordinator_keys=list(group_ids))
        response = await self._ask_any(request)
        return {each.key: refusal(each) or each.node_id for each in response.coordinators}

    async def leaders(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int | RefusedError]:
        """A `Place` of partitions."""
        response = await self.metadata({topic for topic, _ in partitions})
        places: dict[tuple[str, int], int | RefusedError] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                nobody = refusal(partition) if partition.leader_id < 0 else None
                places[topic.name or "", partition.partition_index] = nobody or partition.leader_id
        nowhere = RefusedError("there is no such partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {each: places.get(each, nowhere) for each in partitions}

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        if self._guide is not None:
            self._guide.close()

    async def _ask_guide(self, request: Any) -> Any:
        """The guide may have died meanwhile; whoever it has named can be the next one."""
        if self._guide is not None:
            try:
                return await self._guide.ask(request)
            except UnreachableError:
                self._guide.close()
                self._guide = None
        others = [each for each in self._addresses.values() if each not in self._bootstrap]
        addresses = [*self._bootstrap, *others]
        self._guide = await _meet(await connect_to_one_of(self._network, addresses, self._role, _APIS))
        return await self._guide.ask(request)

    async def _ask_any(self, request: Any) -> Any:
        """What all know alike."""
        await self.metadata()
        if not self._addresses:
            raise UnreachableError(f"no SPU is online. {SPU.what_to_do}")
        fault: UnreachableError | None = None
        for spu_id in sorted(self._addresses, key=lambda each: each not in self._servers):
            try:
                return await self.ask(spu_id, request)
            except UnreachableError as error:
                fault = error
        assert fault is not None, "there was one to ask"
        raise fault

    async def _ask_once(
        self, keys: Sequence[Key], place: "Place[Key]", ask: "Ask[Key, Answer]"
    ) -> dict[Key, Answer | RefusedError | UnreachableError]:
        answers: dict[Key, Answer | RefusedError | UnreachableError] = {}
        keys_of: dict[int, list[Key]] = {}
        try:
            places = await place(keys)
        except UnreachableError as error:
            if not self._addresses:
                raise  # nobody was ever there, at these addresses
            return dict.fromkeys(keys, error)
        for key, where in places.items():
            if isinstance(where, RefusedError):
                answers[key] = where
            else:
                keys_of.setdefault(where, []).append(key)

        async def ask_one(spu_id: int, its_keys: list[Key]) -> None:
            try:
                answers.update(await ask(spu_id, its_keys))
            except (UnreachableError, RefusedError) as error:
                answers.update(dict.fromkeys(its_keys, error))

        async with trio.open_nursery() as nursery:
            for spu_id, its_keys in keys_of.items():
                nursery.start_soon(ask_one, spu_id, its_keys)
        return answers


class _Server:
    """One server, and in which versions it serves what."""

    def __init__(self, connection: ServerConnection, versions: Mapping[int, tuple[int, int]]) -> None:
        self._connection = connection
        self._versions = versions

    async def ask(self, request: Any, version_max: int | None = None) -> Any:
        api = _APIS[request.API_KEY]
        if api.key in SPU_OBJECT_APIS:
            return await self._connection.ask(request, api.max_version)  # served, but not advertised
        lowest, highest = self._versions.get(api.key, (0, -1))
        version = min(api.max_version if version_max is None else version_max, highest)
        if version < max(api.min_version, lowest):
            message = f"the server at {self._connection.address} does not serve {api.name}"
            raise RefusedError(message, ErrorCode.UNSUPPORTED_VERSION)
        return await self._connection.ask(request, version)

    def close(self) -> None:
        self._connection.close()


async def _meet(connection: ServerConnection) -> _Server:
    try:
        # Every version after it is answered in this one's form by those who do not know it.
        answer = await connection.ask(ApiVersionsRequest(CLIENT_ID, __version__), 3)
    except (UnreachableError, trio.Cancelled):
        connection.close()
        raise
    return _Server(connection, {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys})


def _may_pass(answer: object) -> bool:
    return isinstance(answer, UnreachableError) or (isinstance(answer, RefusedError) and answer.code in PASSING)
