import json

import pytest
from public_sc import ADDRESS, public_sc

from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.client.stream_states import StreamGroupState, StreamReading
from tailrace.protocol.error_codes import ErrorCode

ATTRIBUTE = json.dumps({"members": [{"member_id": "replica1", "shards": "0", "last_heartbeat": "t0"}], "epoch": 1})


async def test_a_member_reads_and_writes_the_state_object(autojump_clock: object) -> None:
    async with public_sc() as sc:
        await sc.running.create_topic("orders", 3)
        client = ScClient(sc.network, [ADDRESS])
        assert await client.read_stream_state("orders", "g") == StreamReading(3, 0, {})
        version = await client.write_stream_state("orders", "g", 0, ATTRIBUTE)
        expected = StreamGroupState(version, ATTRIBUTE, {"replica1": 0.0})
        assert await client.read_stream_state("orders") == StreamReading(3, 0, {"g": expected})
        with pytest.raises(RefusedError) as caught:
            await client.write_stream_state("orders", "g", 0, ATTRIBUTE)
        assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION
        assert await client.write_stream_state("orders", "g", version, None) == 0
        await client.report_trigger("bill", "replica1", "{}")
        client.close()
