"""Speaks with the Streaming Controller's public port: one request at a time, each with an end to the wait for it."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from tailrace.protocol.apis import API_TABLE, Api
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.framing import FrameBuffer
from tailrace.protocol.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.internal.create_object import CreateObjectRequest
from tailrace.protocol.internal.delete_object import DeleteObjectRequest
from tailrace.protocol.internal.describe_partitions import DescribedPartition, DescribePartitionsRequest
from tailrace.protocol.internal.describe_segments import DescribeSegmentsRequest, SegmentedPartition
from tailrace.protocol.internal.list_objects import ListObjectsRequest
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest
from tailrace.protocol.internal.update_object import UpdateObjectRequest
from tailrace.protocol.internal_apis import SC_OBJECT_APIS
from tailrace.runtime.network import Address, Connection, Network, receive_some, send_all

CONNECT_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 35.0
"""More than the SC itself takes at most, unless it was asked to wait."""
RESPONSE_BYTES_MAX = 100 * 1024 * 1024
CLIENT_ID = "tailrace-cli"

_APIS: Mapping[int, Api] = {**API_TABLE, **SC_OBJECT_APIS}
_WHAT_TO_DO = "Start one with `tailrace serve sc` or `tailrace up`, or name another with --sc or TAILRACE_SC"
_TOPIC_RESOURCE = 2
_SET = 0
_DELETE = 1

Document = dict[str, Any]


class ScUnreachableError(Exception):
    """There is no SC, or it does not answer: one sentence, with what to do about it."""


class ScRefusedError(Exception):
    """The SC has answered that it will not, or cannot: one sentence."""


class ScClient:
    """Connects when it is first asked something: what is wrong with a command is said before."""

    def __init__(self, network: Network, addresses: Sequence[Address]) -> None:
        """`addresses` are those of one SC and of its standbys, which do not listen before they lead."""
        self._network = network
        self._addresses = addresses
        self._address = addresses[0]
        self._connection: Connection | None = None
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self._buffer = memoryview(bytearray(64 * 1024))
        self._correlation_id = 0

    async def list_objects(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        response = await self._ask_checked(ListObjectsRequest(kind, None if names is None else list(names)))
        return [self._document(each.document) for each in response.objects]

    async def create(self, kind: str, document: object, wait_ms: int = 0) -> Document:
        request = CreateObjectRequest(kind, json.dumps(document), wait_ms)
        return self._document((await self._ask_checked(request, wait_ms)).document)

    async def update(self, kind: str, document: object) -> Document:
        return self._document((await self._ask_checked(UpdateObjectRequest(kind, json.dumps(document)))).document)

    async def delete(self, kind: str, name: str, *, force: bool = False) -> None:
        await self._ask_checked(DeleteObjectRequest(kind, name, force))

    async def undelete_topic(self, name_or_id: str) -> Document:
        return self._document((await self._ask_checked(UndeleteTopicRequest(name_or_id))).document)

    async def describe_partitions(self, topics: Sequence[str] | None) -> list[DescribedPartition]:
        response = await self._ask_checked(DescribePartitionsRequest(None if topics is None else list(topics)))
        partitions: list[DescribedPartition] = response.partitions
        return partitions

    async def describe_segments(self, topic: str, partition: int | None, before: int) -> list[SegmentedPartition]:
        """Those that begin below `before`; -1: all."""
        number = -1 if partition is None else partition
        response = await self._ask_checked(DescribeSegmentsRequest(topic, number, before))
        partitions: list[SegmentedPartition] = response.partitions
        return partitions

    async def alter_topic_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """None: the topic sets it no more."""
        from tailrace.protocol.messages.incremental_alter_configs import (
            AlterableConfig,
            AlterConfigsResource,
            IncrementalAlterConfigsRequest,
        )

        configs = [AlterableConfig(name, _DELETE if value is None else _SET, value) for name, value in changes.items()]
        resource = AlterConfigsResource(_TOPIC_RESOURCE, topic, configs)
        response = await self.ask(IncrementalAlterConfigsRequest([resource]))
        for each in response.responses:
            _check(each)

    async def add_partitions(self, topic: str, count: int, rows: Sequence[Sequence[int]] | None = None) -> None:
        """`count`: how many there are to be in all; `rows`: the replicas of those that are added."""
        from tailrace.protocol.messages.create_partitions import (
            CreatePartitionsAssignment,
            CreatePartitionsRequest,
            CreatePartitionsTopic,
        )

        assignments = None if rows is None else [CreatePartitionsAssignment(list(row)) for row in rows]
        timeout_ms = int(ANSWER_SECONDS_MAX * 1000) - 5000
        wanted = CreatePartitionsTopic(topic, count, assignments)
        response = await self.ask(CreatePartitionsRequest([wanted], timeout_ms))
        for each in response.results:
            _check(each)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def ask(self, message: Any, wait_ms: int = 0) -> Any:
        """Any of Kafka's requests, or of ours; what stands in the response is not looked at."""
        connection = await self._connected()
        api = _APIS[message.API_KEY]
        self._correlation_id += 1
        header = RequestHeader(api.key, api.max_version, self._correlation_id, CLIENT_ID)
        with trio.move_on_after(ANSWER_SECONDS_MAX + wait_ms / 1000):
            try:
                parts: list[Any] = encode_request(header, message, _APIS)
                await send_all(connection, b"".join(parts))
                frame = await self._receive(connection)
                answered, response = decode_response(api.key, api.max_version, frame, _APIS)
            except OSError as error:
                raise self._unreachable(f"the connection broke: {_reason(error)}") from error
            except RemoteProtocolError as error:
                raise ScUnreachableError(f"what answers at {self._address} is no SC: {error}") from error
            if answered != self._correlation_id:
                raise ScUnreachableError(f"what answers at {self._address} is no SC: it answered something else")
            return response
        raise self._unreachable("the time for an answer has passed")

    async def _ask_checked(self, message: Any, wait_ms: int = 0) -> Any:
        response = await self.ask(message, wait_ms)
        _check(response)
        return response

    async def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        faults = []
        for address in self._addresses:
            try:
                self._connection = await self._connect(address)
            except ScUnreachableError as fault:
                faults.append(fault)
                continue
            self._address = address
            return self._connection
        if len(faults) == 1:
            raise faults[0]
        listed = ", ".join(map(str, self._addresses))
        raise ScUnreachableError(f"none of the SCs at {listed} answers. {_WHAT_TO_DO}")

    async def _connect(self, address: Address) -> Connection:
        with trio.move_on_after(CONNECT_SECONDS_MAX):
            try:
                return await self._network.connect(address)
            except OSError as error:
                raise _unreachable(address, _reason(error)) from error
        raise _unreachable(address, f"no connection within {CONNECT_SECONDS_MAX:.0f} seconds")

    async def _receive(self, connection: Connection) -> bytes:
        while (frame := self._frames.next_frame()) is None:
            count = await receive_some(connection, self._buffer)
            if count == 0:
                raise self._unreachable("it closed the connection; commands are taken on its public port alone")
            self._frames.feed(self._buffer[:count])
        return frame

    def _unreachable(self, why: str) -> ScUnreachableError:
        return _unreachable(self._address, why)

    def _document(self, text: str) -> Document:
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ScUnreachableError(f"what answers at {self._address} is no SC: {error}") from error
        if not isinstance(document, dict):
            raise ScUnreachableError(f"what answers at {self._address} is no SC: it sent no document")
        return document


def _unreachable(address: Address, why: str) -> ScUnreachableError:
    return ScUnreachableError(f"the SC at {address} does not answer: {why}. {_WHAT_TO_DO}")


def _reason(error: OSError) -> str:
    """Without the address, which is said anyway."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return error.strerror or str(error)  # no such host


def _check(answer: Any) -> None:
    """Every answer, or part of one, has its own error."""
    if answer.error_code:
        raise ScRefusedError(answer.error_message or _name_of(answer.error_code))


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
