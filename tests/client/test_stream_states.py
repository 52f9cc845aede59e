import pytest
from public_sc import ADDRESS, public_sc

from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.client.stream_states import groups_of
from tailrace.cluster.stream_state.stream_state import GroupState, StreamMember, StreamRead
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.read_stream_state import ReadStreamStateResponse, StreamGroup

STATE = GroupState((StreamMember("replica1", frozenset({0, 1}), 1_000, "process", 10_000),), 1)


async def test_a_member_reads_and_writes_the_state_object(autojump_clock: object) -> None:
    async with public_sc() as sc:
        await sc.running.create_topic("orders", 3)
        client = ScClient(sc.network, [ADDRESS])
        assert await client.read_stream_state("orders", "g") == StreamRead(3)
        assert await client.read_stream_groups("orders") == {}
        version = await client.write_stream_state("orders", "g", 0, STATE)
        expected = StreamRead(3, 0, STATE, version, {"replica1": 0})
        assert await client.read_stream_state("orders", "g") == expected
        assert await client.read_stream_groups("orders") == {"g": expected}
        with pytest.raises(RefusedError) as caught:
            await client.write_stream_state("orders", "g", 0, STATE)
        assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION
        assert await client.write_stream_state("orders", "g", version, None) == 0
        await client.report_trigger("bill", "replica1", '{"topic":"orders","group":"g","replica":"replica1"}')
        client.close()


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"^the state of the group g cannot be read: the state is not JSON"):
        groups_of(ReadStreamStateResponse(groups=[StreamGroup("g", 1, "{")]))
