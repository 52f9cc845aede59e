"""`tailrace consume --quorum`: asks the replicas instead of the leader which records are acknowledged."""

import trio

from tailrace.cli.options.sc_options import say
from tailrace.cli.records.consuming.quorum_client import QuorumClient, QuorumFetched, TooFewStoresError
from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.client.log_client import Fetched, LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import PATIENCE_SECONDS, PAUSE_SECONDS_MIN, SpuClient

from .consume_progress import Consuming
from .consume_ranges import BEGINNING
from .consume_request import ConsumeRequest
from .leader_reading import taken

_OFFSET_MAX = 2**63 - 1


async def consume_from_quorum(spus: SpuClient, request: ConsumeRequest) -> None:
    """Prints what a quorum of the replicas has acknowledged. Raises RefusedError if they cannot tell."""
    arguments, choice = request.arguments, request.choice
    client = QuorumClient(spus)
    partitions = await choice.partitions(LogClient(spus))
    if not partitions:
        raise RefusedError(choice.no_match())
    starts: dict[Partition, int] = dict.fromkeys(partitions, 0 if arguments.start == BEGINNING else arguments.start)
    stop = _OFFSET_MAX if arguments.stop is None else arguments.stop
    ends = None if arguments.follow else dict.fromkeys(partitions, stop)
    reader = request.reader(starts, ends)
    patient_until = trio.current_time() + PATIENCE_SECONDS
    while wanted := reader.wanted:
        stays: RefusedError | None = None
        for partition, offset in wanted.items():
            try:
                fetched = await client.read(partition, offset)
            except TooFewStoresError as error:
                stays = error
                continue
            await request.output.show(_taken(reader, partition, fetched))
            if fetched.end == offset < fetched.may_end:
                stays = RefusedError(_undecided(partition, fetched))
        if reader.wanted != wanted:
            patient_until = trio.current_time() + PATIENCE_SECONDS
            continue
        if stays is not None and not arguments.follow and trio.current_time() > patient_until:
            raise stays
        await trio.sleep(PAUSE_SECONDS_MIN)


def _taken(reader: Consuming, partition: Partition, fetched: QuorumFetched) -> list[Consumed]:
    position = reader.positions[partition]
    if fetched.start > position > 0:
        say("consume", f"{partition} begins at offset {fetched.start}")
    if reader.ends is not None:
        reader.ends[partition] = min(reader.ends[partition], fetched.may_end)
    reader.positions[partition] = fetched.start
    found = taken(reader, partition, Fetched(fetched.records, fetched.end))
    if reader.positions[partition] >= fetched.records_end:
        reader.positions[partition] = fetched.end
    return found


def _undecided(partition: Partition, fetched: QuorumFetched) -> str:
    why = "".join(f"; {each}" for each in fetched.silent)
    return (
        f"{partition}: everything below offset {fetched.end} is acknowledged and has been shown; whether the records "
        f"up to {fetched.may_end} are acknowledged cannot be told without more replicas or a leader{why}"
    )
