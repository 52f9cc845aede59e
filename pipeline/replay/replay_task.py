"""What a task of a replay does on an executor: it looks at some partitions, or sends them.

A task sends several partitions at the same time if the replay keeps the pace. Otherwise a task has one partition.
"""

from contextlib import closing

import trio
from msgspec import Struct

from tailrace.client.client_network import client_network
from tailrace.client.log_client import LogClient, ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import NO_TIMESTAMP
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.network import Address
from tailrace.runtime.settings import parse_address
from tailrace.runtime.wall_clock import SystemClock

from .map_parts import MapNames, PartWriter, last_state
from .offset_map import PartState
from .partition_replay import PartitionReplay
from .record_choice import RecordChooser
from .record_masks import RecordMasks, parse_mask
from .record_stream import RecordStream
from .replay_document import PartitionExtent, ReplaySettings
from .replay_line import ReplayError
from .replay_pace import ReplayPace
from .replay_position import ROLLUP_END, ReplayPosition
from .replay_sources import SourceRows
from .target_log import TargetLog

REQUIRED = ("trio", "structlog")
"""The packages that executors need besides those of every job, because they speak Kafka's protocol."""


class PartitionTask(Struct, frozen=True):
    """One partition to look at or to send."""

    extent: PartitionExtent
    rows: SourceRows


class ReplayTask(Struct, frozen=True):
    """Some partitions of a replay."""

    settings: ReplaySettings
    partitions: tuple[PartitionTask, ...]
    directory: str | None
    """The directory of the map; None if nothing is sent."""
    secret: bytes | None = None
    bootstrap: str = ""
    producer: tuple[int, int] = (-1, -1)
    compression: int = Compression.NONE
    pace: ReplayPace | None = None


class PartitionLook(Struct, frozen=True):
    """What would be sent of a partition."""

    partition: int
    position: ReplayPosition
    """How far the map says that the replay is."""
    is_done: bool
    first_timestamp: int | None = None
    read: int = 0
    records: int = 0
    bytes: int = 0
    rollup: int = 0
    first: int | None = None
    """The offsets of the first and last record that would be sent."""
    last: int | None = None


class PartitionOutcome(Struct, frozen=True):
    """What a task has done with a partition."""

    partition: int
    state: PartState
    sent: int
    """Records that this attempt has sent."""
    found: int
    """Records that were in the target, and in no part of the map."""


def look(task: ReplayTask, *, is_brief: bool) -> list[PartitionLook]:
    """Reads what would be sent, and sends nothing. `is_brief` finds only the first record of each partition."""
    return [_look(task, each, is_brief) for each in task.partitions]


def _look(task: ReplayTask, wanted: PartitionTask, is_brief: bool) -> PartitionLook:
    state = None if task.directory is None else last_state(task.directory, wanted.extent.partition)
    state = PartState(wanted.extent.position) if state is None else state
    found = PartitionLook(wanted.extent.partition, state.position, state.is_end)
    if state.is_end:
        return found
    stream, position = _stream(task, wanted, state.position), state.position
    records = size = rollup = 0
    first_timestamp = first = last = None
    while (some := stream.next()) is not None:
        first = some[0].offset if first is None else first
        if first_timestamp is None:
            times = (each.record.timestamp for each in some)
            first_timestamp = min((each for each in times if each != NO_TIMESTAMP), default=None)
        if is_brief and first_timestamp is not None:
            break
        last = some[-1].offset
        records += len(some)
        size += sum(each.size for each in some)
        rollup += sum(each.hash for each in some)
    return PartitionLook(
        found.partition, position, False, first_timestamp, stream.read - position.read, records, size,
        rollup % ROLLUP_END, first, last,
    )  # fmt: skip


def _stream(task: ReplayTask, wanted: PartitionTask, position: ReplayPosition) -> RecordStream:
    settings = task.settings
    return RecordStream(
        str(Partition(settings.topic, wanted.extent.partition)),
        wanted.rows.rows(position.source),
        RecordChooser(settings.choice),
        RecordMasks(map(parse_mask, settings.masks), task.secret),
        position.read,
    )


def send(task: ReplayTask) -> list[PartitionOutcome]:
    """Sends what is not in the target yet. Raises ReplayError, and the errors of the source."""
    try:
        return trio.run(_send, task)
    except BaseException as error:
        found = first_error(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, (RefusedError, UnreachableError)):
            raise ReplayError(str(found)) from None
        raise found from None


async def _send(task: ReplayTask) -> list[PartitionOutcome]:
    outcomes: list[PartitionOutcome] = []
    async with trio.open_nursery() as nursery:
        for each in task.partitions:
            nursery.start_soon(_send_partition, task, each, outcomes)
    return outcomes


async def _send_partition(task: ReplayTask, wanted: PartitionTask, outcomes: list[PartitionOutcome]) -> None:
    assert task.directory is not None, "a replay that sends has a map"
    extent, settings = wanted.extent, task.settings
    names = MapNames(settings.topic, extent.topic_id, extent.partition, settings.to_topic)
    writer = PartWriter(task.directory, names, extent.position)
    if writer.state.is_end:
        outcomes.append(PartitionOutcome(extent.partition, writer.state, 0, 0))
        return
    # Each partition has its own connections, so that a slow leader delays no other partition.
    client = SpuClient(client_network(), addresses(task.bootstrap), BOOTSTRAP)
    with closing(client):
        replay = PartitionReplay(
            TargetLog(
                LogClient(client),
                Partition(settings.to_topic, extent.partition),
                ProducerName(*task.producer),
                Compression(task.compression),
            ),
            _stream(task, wanted, writer.state.position),
            extent.end,
            writer,
            SystemClock(),
            task.pace,
        )
        await replay.run()
    outcomes.append(PartitionOutcome(extent.partition, writer.state, replay.counts.sent, replay.counts.found))


def addresses(bootstrap: str) -> list[Address]:
    """Reads the addresses of brokers."""
    return [parse_address(each.strip(), "bootstrap", port_min=1) for each in bootstrap.split(",")]
