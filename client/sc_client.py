"""Asks the Streaming Controller on its public port, one request at a time, each with a timeout."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import trio

from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.internal.create_object import CreateObjectRequest
from tailrace.protocol.internal.delete_object import DeleteObjectRequest
from tailrace.protocol.internal.describe_partitions import DescribePartitionsRequest, DescribePartitionsResponse
from tailrace.protocol.internal.describe_segments import DescribeSegmentsRequest, SegmentedPartition
from tailrace.protocol.internal.list_objects import ListObjectsRequest
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest
from tailrace.protocol.internal.update_object import UpdateObjectRequest
from tailrace.protocol.internal_apis import SC_OBJECT_APIS
from tailrace.runtime.network import Address, Network

from .server_connection import (
    ClosedError,
    Role,
    ServerConnection,
    UnreachableError,
    check,
    connect,
    connect_to_one_of,
)

if TYPE_CHECKING:
    from tailrace.cluster.stream_state.stream_state import GroupState, StreamRead

_APIS: Mapping[int, Api] = {**API_TABLE, **SC_OBJECT_APIS}
_WHAT_TO_DO = "Start one with `tailrace serve sc` or `tailrace up`, or name another with --sc or TAILRACE_SC"
_OR_BROKERS = f"{_WHAT_TO_DO}, or a broker with --bootstrap or TAILRACE_BOOTSTRAP"
_IF_IT_CLOSES = "; only its public port takes commands, with --client-config if it expects TLS or a login"
SC = Role("SC", _WHAT_TO_DO, _IF_IT_CLOSES)
SC_OR_BROKERS = Role("SC", _OR_BROKERS, _IF_IT_CLOSES)
"""The SC, for commands that brokers can answer as well."""
_IS_BROKER = (
    "is a broker (SPU), not the SC: give the SC's public address, usually port 9003, with --sc or TAILRACE_SC; brokers "
    "are for --bootstrap"
)
_PROBE_SECONDS_MAX = 2.0
"""How long to find out what kind of server has closed a connection."""

Document = dict[str, Any]


class ScClient:
    """Asks the SC; connects at the first request, so that usage errors are reported without an SC."""

    def __init__(self, network: Network, addresses: Sequence[Address], role: Role = SC) -> None:
        """Takes the public addresses of an SC and its standbys, which do not listen while they are standbys.

        `role` says what a person can do if none of them responds.
        """
        self.network = network
        self.addresses = addresses
        self.role = role
        self._connection: ServerConnection | None = None

    @property
    def address(self) -> Address:
        """The address of the SC that responds; the first one that was given if none has responded yet."""
        return self.addresses[0] if self._connection is None else self._connection.address

    async def list_objects(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        """Lists the objects of a kind, all of them or those with some names."""
        response = await self._ask_checked(ListObjectsRequest(kind, None if names is None else list(names)))
        return [self._document(each.document) for each in response.objects]

    async def create(self, kind: str, document: object, wait_ms: int = 0) -> Document:
        """Creates an object; `wait_ms` is how long the SC may wait until it is ready."""
        request = CreateObjectRequest(kind, json.dumps(document), wait_ms)
        return self._document((await self._ask_checked(request, wait_ms)).document)

    async def update(self, kind: str, document: object) -> Document:
        """Replaces the spec of an object."""
        return self._document((await self._ask_checked(UpdateObjectRequest(kind, json.dumps(document)))).document)

    async def delete(self, kind: str, name: str, *, force: bool = False) -> None:
        """Deletes an object; `force` gives up the replicas that it holds."""
        await self._ask_checked(DeleteObjectRequest(kind, name, force))

    async def undelete_topic(self, name_or_id: str) -> Document:
        """Restores a deleted topic."""
        return self._document((await self._ask_checked(UndeleteTopicRequest(name_or_id))).document)

    async def describe_partitions(
        self, topics: Sequence[str] | None, epochs_max: int = 0, changes_after_us: int = -1
    ) -> DescribePartitionsResponse:
        """Describes partitions, with the last `epochs_max` leader epochs of each replica.

        The response also has the statuses that partitions have had since `changes_after_us`, unless that is -1.
        """
        names = None if topics is None else list(topics)
        response: DescribePartitionsResponse = await self._ask_checked(
            DescribePartitionsRequest(names, epochs_max, changes_after_us)
        )
        return response

    async def describe_segments(self, topic: str, partition: int | None, before: int) -> list[SegmentedPartition]:
        """Describes the segments that begin before an offset; -1 stands for all segments."""
        number = -1 if partition is None else partition
        response = await self._ask_checked(DescribeSegmentsRequest(topic, number, before))
        partitions: list[SegmentedPartition] = response.partitions
        return partitions

    async def read_stream_state(self, topic: str, group: str) -> "StreamRead":
        """Reads what the state object of a stream has about one group, which may be nothing."""
        from tailrace.cluster.stream_state.stream_state import StreamRead
        from tailrace.protocol.internal.read_stream_state import ReadStreamStateRequest

        from .stream_states import groups_of

        response = await self._ask_checked(ReadStreamStateRequest(topic, group))
        return groups_of(response).get(group) or StreamRead(response.shards, response.replicas)

    async def read_stream_groups(self, topic: str) -> "Mapping[str, StreamRead]":
        """Reads the whole state object of a stream, by group."""
        from tailrace.protocol.internal.read_stream_state import ReadStreamStateRequest

        from .stream_states import groups_of

        return groups_of(await self._ask_checked(ReadStreamStateRequest(topic)))

    async def write_stream_state(
        self, topic: str, group: str, expected_version: int, state: "GroupState | None"
    ) -> int:
        """Writes the state of a group, or removes it for None, and returns its new version.

        Raises RefusedError with INVALID_UPDATE_VERSION if the state does not have the expected version any more.
        """
        from tailrace.cluster.stream_state.stream_state import encode_group_state
        from tailrace.protocol.internal.write_stream_state import WriteStreamStateRequest

        text = None if state is None else encode_group_state(state)
        response = await self._ask_checked(WriteStreamStateRequest(topic, group, expected_version, text))
        version: int = response.version
        return version

    async def read_archive_head(self, archive: str) -> tuple[int, str | None]:
        """Reads the head of an archive: its version, and JSON. There is none if the version is 0."""
        from tailrace.protocol.internal.read_archive_head import ReadArchiveHeadRequest

        response = await self._ask_checked(ReadArchiveHeadRequest(archive))
        return response.version, response.head

    async def write_archive_head(self, archive: str, expected_version: int, head: str) -> int:
        """Writes the head of an archive, and returns its new version.

        Raises RefusedError with INVALID_UPDATE_VERSION if the head does not have the expected version any more.
        """
        from tailrace.protocol.internal.write_archive_head import WriteArchiveHeadRequest

        response = await self._ask_checked(WriteArchiveHeadRequest(archive, expected_version, head))
        version: int = response.version
        return version

    async def report_trigger(self, name: str, replica: str, document: str) -> None:
        """Gives the SC the report of a replica, a JSON document."""
        from tailrace.protocol.internal.report_trigger import ReportTriggerRequest

        await self._ask_checked(ReportTriggerRequest(name, replica, document))

    async def read_trigger_log(self, name: str, replica: str, after: int, bytes_max: int) -> tuple[str, int]:
        """Reads what a replica has printed after a position, or the last part for -1; returns it and the next position.

        Raises RefusedError if the SC has no log of the replica.
        """
        from tailrace.protocol.internal.read_trigger_log import ReadTriggerLogRequest

        response = await self._ask_checked(ReadTriggerLogRequest(name, replica, after, bytes_max))
        return response.text, response.next

    def close(self) -> None:
        """Closes the connection, if there is one. The next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def ask(self, message: Any, wait_ms: int = 0) -> Any:
        """Sends a request of Kafka's protocol or of ours, and returns the response without checking it for errors."""
        connection = await self._connected()
        try:
            return await connection.ask(message, _APIS[message.API_KEY].max_version, wait_ms / 1000)
        except ClosedError as error:
            if await _is_broker(self.network, connection.address):
                raise UnreachableError(f"the server at {connection.address} {_IS_BROKER}") from error
            raise

    async def _ask_checked(self, message: Any, wait_ms: int = 0) -> Any:
        response = await self.ask(message, wait_ms)
        check(response)
        return response

    async def _connected(self) -> ServerConnection:
        if self._connection is None:
            self._connection = await connect_to_one_of(self.network, self.addresses, self.role, _APIS)
        return self._connection

    def _document(self, text: str) -> Document:
        assert self._connection is not None, "the document came through it"
        try:
            document = json.loads(text)
        except ValueError as error:
            raise self._connection.is_another(error) from error
        if not isinstance(document, dict):
            raise self._connection.is_another("it sent something else than a document")
        return document


async def _is_broker(network: Network, address: Address) -> bool:
    """Whether the server takes records, which the SC does not."""
    from tailrace.protocol.messages.api_versions import ApiVersionsRequest

    with trio.move_on_after(_PROBE_SECONDS_MAX):
        try:
            connection = await connect(network, address, SC, _APIS)
        except UnreachableError:
            return False
        try:
            response = await connection.ask(ApiVersionsRequest(), 0)
            return any(each.api_key == ApiKey.PRODUCE for each in response.api_keys)
        except UnreachableError:
            return False
        finally:
            connection.close()
    return False
