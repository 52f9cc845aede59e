import structlog
import trio
import trio.testing
from structlog.testing import capture_logs

from tailrace.controller.workflow.election_log import GATHER_SECONDS, LOGGED_ONE_BY_ONE_MAX, Elected, ElectionLog
from tailrace.protocol.ids import Epoch, SpuId


def _elected(partition: int, leader: int = 1) -> Elected:
    return Elected("orders", partition, SpuId(3), SpuId(leader), Epoch(7))


async def test_a_few_elections_have_a_line_each(autojump_clock: trio.testing.MockClock) -> None:
    with capture_logs() as logs:
        elections = ElectionLog(structlog.get_logger())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(elections.run)
            for partition in range(LOGGED_ONE_BY_ONE_MAX):
                elections.note(_elected(partition))
            await trio.sleep(2 * GATHER_SECONDS)
            assert len(logs) == LOGGED_ONE_BY_ONE_MAX
            elections.note(_elected(9))
            await trio.sleep(GATHER_SECONDS / 2)
            nursery.cancel_scope.cancel()
    assert {log["event"] for log in logs} == {"leader_elected"}
    assert logs[-1]["partition"] == 9, "what was noted last is logged at the stop"
    fields = {"topic": "orders", "partition": 9, "before": 3, "leader": 1, "epoch": 7}
    assert fields.items() <= logs[-1].items()


async def test_many_elections_at_once_are_one_line(autojump_clock: trio.testing.MockClock) -> None:
    with capture_logs() as logs:
        elections = ElectionLog(structlog.get_logger())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(elections.run)
            for partition in range(72):
                elections.note(_elected(partition, leader=1 + partition % 2))
                if partition == 40:
                    await trio.sleep(GATHER_SECONDS / 2)
            await trio.sleep(3 * GATHER_SECONDS)
            nursery.cancel_scope.cancel()
    (log,) = logs
    assert (log["event"], log["partitions"], log["leaders"]) == ("leaders_elected", 72, {"1": 36, "2": 36})
