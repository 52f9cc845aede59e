"""The record of a dead letter: the failed record with its key, value and headers, and why it was given up.

The headers that Apache Kafka gives the dead letters of share groups (KIP-1191) have the same names here: topic,
partition, offset, group, delivery count and message. The other headers are ours, with the same prefix.
"""

from msgspec import Struct

from tailrace.protocol.batches.records import Record
from tailrace.trigger.work import Failure, FailureKind, Output, Shard

from .added_headers import Headers, split_block, whole_number, with_block

PREFIX = "__dlq.errors."
TOPIC = "topic"
PARTITION = "partition"
OFFSET = "offset"
GROUP = "group"
ATTEMPTS = "delivery.count"
MESSAGE = "message"
TIMESTAMP = "timestamp"
KIND = "kind"
ERROR = "exception"
TRACEBACK = "stacktrace"
POSITION = "position"
CONTENT = "content"
NAMES = frozenset(
    {TOPIC, PARTITION, OFFSET, GROUP, ATTEMPTS, MESSAGE, TIMESTAMP, KIND, ERROR, TRACEBACK, POSITION, CONTENT}
)
REPLAYED = "__dlq.replayed"
"""The header of a replayed record; its value names the dead letter, as in `orders.dead/0/17`."""

MESSAGE_CHARACTERS_MAX = 2_000
TRACEBACK_CHARACTERS_MAX = 16_000
"""A longer text loses its middle, so that the dead letter of a large record stays below the limit of its topic."""
_POSITION_CHARACTERS_MAX = 500
_RECORD = "record"
_BATCH = "batch"
_OMITTED = "omitted "
"""Before the size of a value that is missing."""


class Origin(Struct, frozen=True):
    """The place of a record that a trigger has handled."""

    shard: Shard
    offset: int
    timestamp_ms: int
    group: str

    def __str__(self) -> str:
        return f"{self.shard}/{self.offset}"


class Letter(Struct, frozen=True):
    """A dead letter as it is read. Fields that its writer has not given are empty, or -1."""

    origin: Origin
    attempts: int
    kind: str
    error: str
    message: str
    traceback: str
    position: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    """The original headers."""
    is_batch: bool
    """Whether the value is the stored batch, because its records cannot be decoded."""
    omitted_bytes: int
    """The size of the original value if it is missing, because the letter would have been too large; otherwise -1."""


def dead_letter(
    topic: str, origin: Origin, record: Record | None, failure: Failure, attempts: int, batch: bytes = b""
) -> Output:
    """Makes the record of a dead letter. Without a `record`, its value is the batch that cannot be decoded."""
    block = {
        TOPIC: origin.shard.topic,
        PARTITION: str(origin.shard.number),
        OFFSET: str(origin.offset),
        GROUP: origin.group,
        ATTEMPTS: str(attempts),
        MESSAGE: _shortened(failure.message, MESSAGE_CHARACTERS_MAX),
        TIMESTAMP: str(origin.timestamp_ms),
        KIND: failure.kind.value,
        ERROR: _shortened(failure.error, _POSITION_CHARACTERS_MAX),
        TRACEBACK: _shortened(failure.traceback, TRACEBACK_CHARACTERS_MAX),
        POSITION: _shortened(failure.position, _POSITION_CHARACTERS_MAX),
        CONTENT: _BATCH if record is None else _RECORD,
    }
    if record is None:
        return Output(topic, None, batch, with_block((), PREFIX, block))
    return Output(topic, record.key, record.value, with_block(record.headers, PREFIX, block))


def without_value(letter: Output) -> Output:
    """Returns a dead letter that names its origin but has no value, for a topic that refused the whole one as too
    large."""
    headers, block = split_block(letter.headers, PREFIX, NAMES)
    block = dict(reversed(block.items())) | {CONTENT: f"{_OMITTED}{len(letter.value or b'')}", TRACEBACK: ""}
    return Output(letter.topic, letter.key, None, with_block(headers, PREFIX, block), letter.partition)


def read_letter(record: Record) -> Letter | None:
    """Reads a dead letter that a trigger or a share group has written; None if the record is another one."""
    headers, block = split_block(record.headers, PREFIX, NAMES)
    if TOPIC not in block:
        return None
    shard = Shard(block[TOPIC], whole_number(block.get(PARTITION)))
    timestamp_ms = whole_number(block.get(TIMESTAMP))
    content = block.get(CONTENT, "")
    return Letter(
        Origin(shard, whole_number(block.get(OFFSET)), timestamp_ms, block.get(GROUP, "")),
        whole_number(block.get(ATTEMPTS)),
        block.get(KIND, ""),
        block.get(ERROR, ""),
        block.get(MESSAGE, ""),
        block.get(TRACEBACK, ""),
        block.get(POSITION, ""),
        record.key,
        record.value,
        headers,
        content == _BATCH,
        whole_number(content.removeprefix(_OMITTED)),
    )


def replayed(letter: Letter, to: str | None, name: str) -> Output:
    """Returns the original record with a header that names its dead letter, for a trigger that handles it again.

    It goes to its original partition, or to the topic `to`.
    """
    headers = [each for each in letter.headers if each[0] != REPLAYED]
    shard = letter.origin.shard
    partition = shard.number if to is None and shard.number >= 0 else None
    return Output(to or shard.topic, letter.key, letter.value, (*headers, (REPLAYED, name.encode())), partition)


def is_unreadable(letter: Letter) -> bool:
    """Whether a replay would fail again, because the record cannot be decoded."""
    return letter.is_batch or letter.kind == FailureKind.UNREADABLE


def _shortened(text: str, characters_max: int) -> str:
    if len(text) <= characters_max:
        return text
    half = characters_max // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are left out …\n{text[-half:]}"
