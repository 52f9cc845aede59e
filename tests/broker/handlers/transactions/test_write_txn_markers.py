"""WriteTxnMarkers through a connection; `test_marker_writing.py` has what it writes and refuses."""

import pytest
import trio
from producing import ask
from spus import running_spu
from transactional_producing import PRODUCER, TV1, inside, transactional, with_coordinators

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


@pytest.mark.parametrize("version", [1, 2])
async def test_both_versions_end_a_transaction(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        await ask(client, transactional(inside(b"a", 0)), TV1)
        marker = WritableTxnMarker(PRODUCER, 0, False, [WritableTxnMarkerTopic("t", [0])], 0)
        response = await client.request(ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([marker]))
        assert response.markers[0].topics[0].partitions[0].error_code == 0
        assert running.replica("t").log.producers.open_transaction(PRODUCER) is None


async def test_requests_that_follow_do_not_wait_for_the_commit(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        replica.is_alone = False  # nothing commits
        replica._commits_at_append = False
        client = await running.client()
        for producer in (7, 8):
            marker = WritableTxnMarker(producer, 0, False, [WritableTxnMarkerTopic("t", [0])], 0)
            await client.send(client.encode(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker])))
        await trio.testing.wait_all_tasks_blocked()
        assert replica.log.log_end == 2
