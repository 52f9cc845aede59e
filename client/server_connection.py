"""A connection to a server that speaks Kafka's protocol: one request at a time, each with a timeout.

Every command asks the Streaming Controller and the SPUs through this module, so that all commands report the same
problems in the same words.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import trio
from msgspec import Struct

from tailrace.protocol.apis import Api, ApiKey
from tailrace.protocol.codec.decoder_source import STRING_BYTES_MAX
from tailrace.protocol.codec.framing import FrameBuffer
from tailrace.protocol.codec.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.runtime.network import Address, Connection, Network, receive_some, send_all

CONNECT_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 35.0
"""How long a server may send nothing of a response; the SC takes less unless it is asked to wait."""
RESPONSE_BYTES_MAX = 100 * 1024 * 1024
CLIENT_ID = "tailrace-cli"
_SHOWN_CHARACTERS = 40

Answer = TypeVar("Answer")
Key = TypeVar("Key")


class UnreachableError(Exception):
    """No server responds at an address, or another kind of server; the message says what to do."""


class ClosedError(UnreachableError):
    """The server has closed the connection instead of responding, as servers do if they do not know the API."""


class RefusedError(Exception):
    """The server has responded with an error; the message is one sentence."""

    def __init__(self, message: str, code: int = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(message)
        self.code = code


class Role(Struct, frozen=True):
    """The kind of server that is expected at an address, and what to say if it is not there."""

    name: str
    what_to_do: str
    """A sentence about what a person can do if there is no such server."""
    if_it_closes: str = ""
    """What it may mean if the server closes the connection without a response."""

    def is_silent(self, address: Address, why: str) -> UnreachableError:
        """Returns the error for a server that does not respond."""
        return UnreachableError(f"the {self.name} at {address} does not answer: {why}. {self.what_to_do}")

    def all_are_silent(self, addresses: Sequence[Address], faults: Sequence[UnreachableError]) -> UnreachableError:
        """Returns the error if no server responds at any of the addresses."""
        if len(faults) == 1:
            return faults[0]
        return UnreachableError(
            f"none of the {self.name}s at {', '.join(map(str, addresses))} answers. {self.what_to_do}"
        )

    def has_closed(self, address: Address) -> ClosedError:
        """Returns the error for a server that has closed the connection."""
        return ClosedError(str(self.is_silent(address, f"it closed the connection{self.if_it_closes}")))

    def is_another(self, address: Address, why: object) -> UnreachableError:
        """Returns the error for a server of another kind."""
        article = "a" if self.name == "broker" else "an"
        return UnreachableError(f"the server at {address} is not {article} {self.name}: {why}")


async def connect_to_one_of(
    network: Network, addresses: Sequence[Address], role: Role, apis: Mapping[int, Api]
) -> "ServerConnection":
    """Connects to the first server that responds. Raises UnreachableError."""
    faults = []
    for address in addresses:
        try:
            return await connect(network, address, role, apis)
        except UnreachableError as fault:
            faults.append(fault)
    raise role.all_are_silent(addresses, faults)


async def connect(
    network: Network,
    address: Address,
    role: Role,
    apis: Mapping[int, Api],
    seconds_max: float = CONNECT_SECONDS_MAX,
) -> "ServerConnection":
    """Connects to a server, which will be asked with `apis`. Raises UnreachableError."""
    with trio.move_on_after(seconds_max):
        try:
            return ServerConnection(await network.connect(address), address, role, apis)
        except OSError as error:
            raise role.is_silent(address, _reason(error)) from error
    raise role.is_silent(address, f"no connection within {seconds_max:.0f} seconds")


@runtime_checkable
class Session(Protocol):
    """A connection whose login ends after a time."""

    async def renew_login(self) -> None:
        """Logs in again if the login ends soon, while nothing else uses the connection.

        Raises OSError, RefusedError and UnreachableError.
        """


class ServerConnection:
    """A connection to one server."""

    def __init__(self, connection: Connection, address: Address, role: Role, apis: Mapping[int, Api]) -> None:
        self.address = address
        self._connection = connection
        self._session = connection if isinstance(connection, Session) else None
        self._role = role
        self._apis = apis
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self._buffer = memoryview(bytearray(64 * 1024))
        self._correlation_id = 0

    async def ask(
        self, message: Any, version: int, wait_seconds: float = 0.0, silence_seconds: float = ANSWER_SECONDS_MAX
    ) -> Any:
        """Sends a request and returns the response, without checking it for errors.

        `silence_seconds` is how long the server may neither take nor send anything. `wait_seconds` is how much longer
        it may take, because it was asked to wait. Raises UnreachableError, after which the connection is unusable, and
        RefusedError if a text is too long for the protocol.
        """
        if isinstance(self._apis[message.API_KEY].key, ApiKey):
            _check_texts(message)
        self._correlation_id += 1
        header = RequestHeader(self._apis[message.API_KEY].key, version, self._correlation_id, CLIENT_ID)
        seconds = silence_seconds + wait_seconds
        if self._session is not None:
            try:
                await self._session.renew_login()
            except OSError as error:
                raise self._role.is_silent(self.address, f"the connection broke: {_reason(error)}") from error
        with trio.move_on_after(seconds) as waiting:
            try:
                parts: list[Any] = encode_request(header, message, self._apis)
                await send_all(self._connection, b"".join(parts))
                waiting.deadline = trio.current_time() + seconds
                frame = await self._receive(waiting, seconds)
                answered, response = decode_response(message.API_KEY, version, frame, self._apis)
            except OSError as error:
                raise self._role.is_silent(self.address, f"the connection broke: {_reason(error)}") from error
            except RemoteProtocolError as error:
                raise self.is_another(error) from error
            if answered != self._correlation_id:
                raise self.is_another("it responded to another request")
            return response
        raise self._role.is_silent(self.address, f"it sent nothing for {seconds:.0f} s")

    def is_another(self, why: object) -> UnreachableError:
        """Returns the error for a response that makes no sense."""
        return self._role.is_another(self.address, why)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    async def _receive(self, waiting: trio.CancelScope, silence_seconds: float) -> bytes:
        """Returns the next frame, and moves the deadline of `waiting` while parts of the frame arrive."""
        while (frame := self._frames.next_frame()) is None:
            count = await receive_some(self._connection, self._buffer)
            if count == 0:
                raise self._role.has_closed(self.address)
            self._frames.feed(self._buffer[:count])
            waiting.deadline = trio.current_time() + silence_seconds
        return frame


def check(answer: Any) -> None:
    """Raises RefusedError if a response, or a part of one, has an error."""
    refused = refusal(answer)
    if refused is not None:
        raise refused


def refusal(answer: Any) -> RefusedError | None:
    """Returns the error of a response, or of a part of one, as RefusedError; None if there is none."""
    if not answer.error_code:
        return None
    message = getattr(answer, "error_message", None)
    return RefusedError(message or error_name(answer.error_code), answer.error_code)


def unless_refused(answer: Answer | RefusedError) -> Answer:
    """Returns a result, or raises it if it is a refusal."""
    if isinstance(answer, RefusedError):
        raise answer
    return answer


def answered(answers: Mapping[Key, Answer | RefusedError]) -> dict[Key, Answer]:
    """Returns the results for partitions or groups. Raises RefusedError, which names the first refused one."""
    return {key: answer_of(key, answer) for key, answer in answers.items()}


def answer_of(key: object, answer: Answer | RefusedError) -> Answer:
    """Returns the result for a partition or group. Raises RefusedError, which names it, if it is a refusal."""
    if isinstance(answer, RefusedError):
        raise RefusedError(f"{key}: {reason_of(answer)}", answer.code)
    return answer


def _check_texts(value: object) -> None:
    """Refuses texts that are too long: a server would close the connection without a response."""
    if isinstance(value, str):
        size = len(value.encode())
        if size > STRING_BYTES_MAX:
            raise RefusedError(
                f"{value[:_SHOWN_CHARACTERS]!r}… has {size} bytes; names have at most {STRING_BYTES_MAX}",
                ErrorCode.INVALID_REQUEST,
            )
    elif isinstance(value, list):
        for each in value:
            _check_texts(each)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            _check_texts(getattr(value, name))


_REASONS = {
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members, and only they may commit",
    ErrorCode.ILLEGAL_GENERATION: "the group has members, and only they may commit",
    ErrorCode.STALE_MEMBER_EPOCH: "the group has members, and only they may commit",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group subscribe to the topic",
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic allows (max.message.bytes)",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than the topic requires (min.insync.replicas)",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "fewer replicas are in sync than the topic requires (min.insync.replicas)"
    ),
    ErrorCode.REQUEST_TIMED_OUT: "the replicas did not acknowledge the records in time",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the leader cannot be found",
    ErrorCode.OFFSET_NOT_AVAILABLE: "the new leader has not completed its recovery",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk of the leader has failed",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading the groups",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group has no coordinator at the moment",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader at the moment",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the markers of the previous transaction are not written yet",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "the brokers do not let a transaction take that long (transaction.max.timeout.ms)"
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user may not write with the transactional id",
}
"""Explanations of error codes that a server sent without a message."""


def reason_of(error: RefusedError | UnreachableError) -> str:
    """Returns what the error says, or an explanation if the server sent only a code."""
    if isinstance(error, UnreachableError) or str(error) != error_name(error.code):
        return str(error)
    return _REASONS.get(ErrorCode(error.code), str(error)) if error.code in set(ErrorCode) else str(error)


def error_name(code: int) -> str:
    """Returns Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _reason(error: OSError) -> str:
    """Returns the reason of an error without the address, which the message has already."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return error.strerror or str(error)  # no such host
