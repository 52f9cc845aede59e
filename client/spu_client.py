"""Asks the SPUs of a cluster, each for what it leads or coordinates, and retries while that moves.

The client negotiates the version of each API with each SPU, so that requests of Kafka's protocol work with Apache Kafka
as well.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

import trio

from tailrace import __version__
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tailrace.runtime.network import Address, Network

from .plain_login import LOGIN_APIS, Credentials, log_in
from .server_connection import (
    ANSWER_SECONDS_MAX,
    CLIENT_ID,
    RefusedError,
    Role,
    ServerConnection,
    UnreachableError,
    connect,
    refusal,
)

PATIENCE_SECONDS = 15.0
"""How long to retry transient errors; an election, or the loading of a coordinator, takes less."""
SILENCE_SECONDS_MAX = 7.0
"""How long an SPU may send nothing before another one is looked for. A leader that is frozen has been replaced then."""
MEETING_SECONDS_MAX = 4.0
"""How long a server may take for the first, trivial request before the next server is tried."""
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 2.0

SPU = Role("SPU", "`tailrace spu list` shows which are online")
BOOTSTRAP = Role(
    "broker",
    "Start one with `tailrace up`, or name another with --bootstrap or TAILRACE_BOOTSTRAP",
    "; if it expects TLS or a login, give --client-config",
)

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
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""The transient errors, which end soon or come from a server that is no longer the right one."""
TRANSIENT = PASSING | {ErrorCode.KAFKA_STORAGE_ERROR}
"""Refusals after which a producer sends a batch again. A leader whose disk is full takes it when there is room."""
_APIS: Mapping[int, Api] = {**API_TABLE, **SPU_OBJECT_APIS, **LOGIN_APIS}
_GROUP_KEYS = 0
_TRANSACTION_KEYS = 1

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")
Place = Callable[[Sequence[Key]], Awaitable[Mapping[Key, int | RefusedError]]]
"""Finds the SPU that is responsible for each key."""
Ask = Callable[[int, Sequence[Key]], Awaitable[Mapping[Key, Answer | RefusedError]]]
"""Asks one SPU about the keys for which it is responsible."""


class SpuClient:
    """Asks SPUs; connects to each of them at the first request."""

    def __init__(
        self, network: Network, bootstrap: Sequence[Address], role: Role, credentials: Credentials | None = None
    ) -> None:
        """Takes the addresses of servers that know the SPUs; `role` says what kind of servers they are.

        `credentials` are for servers that ask for some.
        """
        own = None if credentials is None else _network_of(network, credentials)
        self._credentials = credentials
        self._logs_in_itself = own is None
        """Whether this object gives the credentials to servers; otherwise the network does."""
        self.asks_for_credentials: bool | None = None
        """Whether the last server that was met asked for credentials; None if none was met, or none could be given."""
        self._network = network if own is None else own
        self._bootstrap = bootstrap
        self._role = role
        self._guide: _Server | None = None
        """The server that is asked which SPUs there are."""
        self._addresses: dict[int, Address] = {}
        """The SPUs that were online when the guide was last asked."""
        self.topic_ids: dict[str, UUID] = {}
        """The ids of topics when they were last looked up. A topic that is made anew gets another id."""
        self._servers: dict[int, _Server] = {}
        self._patient_until: float | None = None
        """When the requests that are being sent are given up; None while none are."""
        self._spent_seconds = 0.0
        """The part of the patience that the last requests, which prepare the next question, have taken."""
        self._patience_seconds = PATIENCE_SECONDS
        self._takes_parts = False
        """Whether the answers of some SPUs are enough."""

    async def metadata(self, topics: Iterable[str] = ()) -> MetadataResponse:
        """Asks for the SPUs that are online, and about some topics."""
        return await self._metadata([MetadataRequestTopic(name=each) for each in topics])

    async def metadata_of_all(self) -> MetadataResponse:
        """Asks for the SPUs that are online, and about all topics."""
        return await self._metadata(None)

    async def _metadata(self, wanted: list[MetadataRequestTopic] | None) -> MetadataResponse:
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        began = trio.current_time()
        response: MetadataResponse = await self._ask_guide(request)
        if self._patient_until is None:
            # Otherwise a command that looks again and again would lose its patience although each look succeeds.
            self._spent_seconds = trio.current_time() - began
        self._addresses = {each.node_id: Address(each.host, each.port) for each in response.brokers}
        if wanted:
            self.topic_ids |= {each.name: each.topic_id for each in response.topics if each.name and each.topic_id.int}
        return response

    async def spus(self) -> list[int]:
        """Returns the ids of the SPUs that are online."""
        return sorted(each.node_id for each in (await self.metadata()).brokers)

    async def ask_first(self, request: Any) -> Any:
        """Asks the server that was found first, for what every server can answer. Does not ask twice.

        Returns the response without checking it for errors. Raises UnreachableError and RefusedError.
        """
        await self.metadata()
        assert self._guide is not None, "the metadata came from it"
        try:
            return await self._guide.ask(request)
        except (UnreachableError, trio.Cancelled):
            self._guide.close()
            self._guide = None
            raise

    async def ask_any(self, request: Any) -> Any:
        """Asks any SPU, for what all of them know; returns the response without checking it for errors.

        Raises UnreachableError and RefusedError.
        """
        with self._patience():
            return await self._ask_any(request)

    def another(self) -> "SpuClient":
        """Returns a client of the same cluster with its own connections, for requests that must not wait for others.

        It knows the SPUs that this client knows, in case no bootstrap server responds.
        """
        other = SpuClient(self._network, self._bootstrap, self._role, self._credentials)
        other._addresses = dict(self._addresses)
        return other

    def start_at(self, bootstrap: Sequence[Address]) -> None:
        """Takes other addresses of servers that know the SPUs, and forgets the SPUs that are known."""
        self.close()
        self._bootstrap, self._guide = bootstrap, None
        self._addresses, self._servers = {}, {}

    def impatient(self, seconds: float) -> "SpuClient":
        """Returns a client like `another`, which waits no longer than this for an SPU that others can do without.

        An SPU that cannot be reached then refuses what it is responsible for. The answers of the others are kept.
        """
        other = self.another()
        other._patience_seconds = seconds
        other._takes_parts = True
        return other

    async def ask(
        self,
        spu_id: int,
        request: Any,
        version_max: int | None = None,
        wait_seconds: float = 0.0,
        silence_seconds: float | None = None,
    ) -> Any:
        """Asks one SPU, and returns the response without checking it for errors.

        `wait_seconds` is how much longer than usual the SPU may take, because it waits for others. `silence_seconds` is
        how long is usual. Raises UnreachableError and RefusedError.
        """
        if spu_id not in self._servers:
            if spu_id not in self._addresses:
                raise UnreachableError(f"SPU {spu_id} is not online. {SPU.what_to_do}")
            self._servers[spu_id] = await self._meet(self._addresses[spu_id], SPU)
        if silence_seconds is None:
            is_patient = self._patient_until is None
            silence_seconds = ANSWER_SECONDS_MAX if is_patient else self._seconds_left(SILENCE_SECONDS_MAX)
        try:
            return await self._servers[spu_id].ask(request, version_max, silence_seconds + wait_seconds)
        except (UnreachableError, trio.Cancelled):
            self._servers.pop(spu_id).close()  # a late response would be taken for that to the next request
            raise

    async def ask_each(
        self, keys: Iterable[Key], place: "Place[Key]", ask: "Ask[Key, Answer]", *, prepares: bool = False
    ) -> dict[Key, Answer | RefusedError]:
        """Asks the SPUs that are responsible for the keys, all at once; returns results in the order of `keys`.

        If an SPU is silent, not ready or no longer responsible for a key, the key is looked up and asked for again, for
        PATIENCE_SECONDS in all. `prepares` says that another question follows, which shares this time.
        Raises UnreachableError.
        """
        wanted = list(dict.fromkeys(keys))
        unanswered = RefusedError("the response does not contain this")
        answers: dict[Key, Answer | RefusedError | UnreachableError] = dict.fromkeys(wanted, unanswered)
        waiting = wanted
        pause = PAUSE_SECONDS_MIN
        with self._patience() as patient_until:
            while waiting:
                answers.update(await self._ask_once(waiting, place, ask))
                waiting = [key for key in waiting if _may_pass(answers[key])]
                if not waiting or trio.current_time() + pause >= patient_until:
                    break
                await trio.sleep(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
        if not prepares:
            self._spent_seconds = 0.0
        found: dict[Key, Answer | RefusedError] = {}
        for key in wanted:
            answer = answers[key]
            if not isinstance(answer, UnreachableError):
                found[key] = answer
            elif self._takes_parts:
                found[key] = RefusedError(str(answer), ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                raise answer
        return found

    async def coordinators(self, group_ids: Sequence[str]) -> dict[str, int | RefusedError]:
        """Finds the coordinators of groups; a `Place`."""
        return await self._coordinators(_GROUP_KEYS, group_ids)

    async def transaction_coordinators(self, transactional_ids: Sequence[str]) -> dict[str, int | RefusedError]:
        """Finds the coordinators of transactional ids; a `Place`."""
        return await self._coordinators(_TRANSACTION_KEYS, transactional_ids)

    async def _coordinators(self, key_type: int, keys: Sequence[str]) -> dict[str, int | RefusedError]:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        response = await self._ask_any(request)
        return {each.key: refusal(each) or each.node_id for each in response.coordinators}

    async def leaders(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int | RefusedError]:
        """Finds the leaders of partitions; a `Place`."""
        response = await self.metadata({topic for topic, _ in partitions})
        places: dict[tuple[str, int], int | RefusedError] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                no_leader = _why_no_leader(partition) if partition.leader_id < 0 else None
                places[topic.name or "", partition.partition_index] = no_leader or partition.leader_id
        nowhere = RefusedError("there is no such partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {each: places.get(each, nowhere) for each in partitions}

    def close(self) -> None:
        """Closes all connections."""
        for server in self._servers.values():
            server.close()
        if self._guide is not None:
            self._guide.close()

    async def _ask_guide(self, request: Any) -> Any:
        """Asks the guide; if it does not respond, any SPU that it has named becomes the next guide."""
        with self._patience():
            if self._guide is not None:
                try:
                    return await self._guide.ask(request, None, self._seconds_left(SILENCE_SECONDS_MAX))
                except UnreachableError:
                    self._guide.close()
                    self._guide = None
            others = [each for each in self._addresses.values() if each not in self._bootstrap]
            self._guide = await self._meet_one_of([*self._bootstrap, *others])
            return await self._guide.ask(request, None, self._seconds_left(SILENCE_SECONDS_MAX))

    async def _meet_one_of(self, addresses: Sequence[Address]) -> "_Server":
        """Connects to the first server that responds. Raises UnreachableError."""
        faults = []
        for address in addresses:
            try:
                return await self._meet(address, self._role)
            except UnreachableError as fault:
                faults.append(fault)
        raise self._role.all_are_silent(addresses, faults)

    async def _meet(self, address: Address, role: Role) -> "_Server":
        """Connects to a server, asks for the versions that it supports, and logs in if it asks for that.

        Raises UnreachableError, and RefusedError if the server does not accept the credentials.
        """
        seconds_max = self._seconds_left(MEETING_SECONDS_MAX)
        connection = await connect(self._network, address, role, _APIS, seconds_max)
        try:
            server = await _meet(connection, seconds_max)
            if not self._logs_in_itself:
                self.asks_for_credentials = True
            elif self._credentials is not None:
                self.asks_for_credentials = server.knows(ApiKey.SASL_HANDSHAKE) and await log_in(
                    connection, self._credentials, seconds_max
                )
        except (UnreachableError, RefusedError, trio.Cancelled):
            connection.close()
            raise
        return server

    def _seconds_left(self, seconds_max: float) -> float:
        """Returns how long one request may take: `seconds_max`, or less if the patience ends before."""
        if self._patient_until is None:
            return seconds_max
        return max(0.0, min(seconds_max, self._patient_until - trio.current_time()))

    @contextmanager
    def _patience(self) -> Iterator[float]:
        """Bounds the time of all requests inside; returns its end. An outer bound stays in force."""
        outer = self._patient_until
        if outer is not None:
            yield outer
            return
        began = trio.current_time()
        self._patient_until = until = began + max(0.0, self._patience_seconds - self._spent_seconds)
        try:
            yield until
        finally:
            self._patient_until = None
            self._spent_seconds += trio.current_time() - began

    async def _ask_any(self, request: Any) -> Any:
        """Asks any SPU, because all of them know the same."""
        await self.metadata()
        if not self._addresses:
            raise UnreachableError(f"no SPU is online. {SPU.what_to_do}")
        fault: UnreachableError | None = None
        for spu_id in sorted(self._addresses, key=lambda each: each not in self._servers):
            try:
                return await self.ask(spu_id, request)
            except UnreachableError as error:
                fault = error
        assert fault is not None, "there was at least one SPU"
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
                raise  # no server has ever responded at these addresses
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
    """One server, and the versions of the APIs that it supports."""

    def __init__(self, connection: ServerConnection, versions: Mapping[int, tuple[int, int]]) -> None:
        self._connection = connection
        self._versions = versions

    async def ask(
        self, request: Any, version_max: int | None = None, silence_seconds: float = ANSWER_SECONDS_MAX
    ) -> Any:
        api = _APIS[request.API_KEY]
        if api.key in SPU_OBJECT_APIS:
            # It is supported, but not advertised.
            return await self._connection.ask(request, api.max_version, silence_seconds=silence_seconds)
        lowest, highest = self._versions.get(api.key, (0, -1))
        version = min(api.max_version if version_max is None else version_max, highest)
        if version < max(api.min_version, lowest):
            message = f"the server at {self._connection.address} does not support {api.name}"
            raise RefusedError(message, ErrorCode.UNSUPPORTED_VERSION)
        return await self._connection.ask(request, version, silence_seconds=silence_seconds)

    def knows(self, key: ApiKey) -> bool:
        """Whether the server lists the API."""
        return key in self._versions

    def close(self) -> None:
        self._connection.close()


async def _meet(connection: ServerConnection, seconds_max: float) -> _Server:
    """Asks a server for the versions that it supports."""
    # A server that does not know a later version would respond in another version than the requested one.
    answer = await connection.ask(ApiVersionsRequest(CLIENT_ID, __version__), 3, silence_seconds=seconds_max)
    return _Server(connection, {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys})


def _why_no_leader(partition: MetadataResponsePartition) -> RefusedError | None:
    if partition.error_code == ErrorCode.LISTENER_NOT_FOUND:
        return RefusedError(
            "its leader has no address for clients of this listener. Name another address with --bootstrap",
            ErrorCode.LISTENER_NOT_FOUND,
        )
    return refusal(partition)


def _may_pass(answer: object) -> bool:
    """Whether a result is a transient error."""
    return isinstance(answer, UnreachableError) or (isinstance(answer, RefusedError) and answer.code in PASSING)


def _network_of(network: Network, credentials: Credentials) -> Network | None:
    """Returns a network that logs in with the credentials, if the network would log in as another user."""
    from .secure_network import SecureNetwork  # imported here because few clients have credentials

    if not isinstance(network, SecureNetwork):
        return None
    return network.as_user(credentials.user, credentials.access_key)
