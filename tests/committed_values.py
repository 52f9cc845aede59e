"""Reads what a consumer with `read_committed` gets, for tests with a whole SPU in memory."""

from contextlib import closing

from grouped_spu import GroupedSpu
from spus import ADDRESS

from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import answered
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transaction_states import ABORTED
from tailrace.protocol.batches.records import Record


async def committed_records(spu: GroupedSpu, topic: str, number: int = 0) -> list[Record]:
    """Returns the committed records of a partition, in their order."""
    partition, offset = Partition(topic, number), 0
    found: list[Record] = []
    with closing(SpuClient(spu.network, [ADDRESS], BOOTSTRAP)) as spus:
        logs = LogClient(spus)
        end = answered(await logs.ends([partition], only_stable=True))[partition].end
        while offset < end:
            fetched = answered(await logs.fetch({partition: offset}, only_stable=True))[partition]
            assert fetched.transactions is not None
            for each in fetched.batches:
                offset = each.header.next_offset
                if fetched.transactions.state_of(each.header, each.marker) != ABORTED:
                    found += each.records
    return found


async def committed_values(spu: GroupedSpu, topic: str, number: int = 0) -> list[bytes | None]:
    """Returns the values of the committed records of a partition, in their order."""
    return [each.value for each in await committed_records(spu, topic, number)]
