import pytest
from record_commands import record_commands
from spus import ADDRESS

from tailrace.cli.records.consuming.consume_progress import Consuming
from tailrace.cli.records.consuming.leader_reading import LeaderReading, enter, taken
from tailrace.client.log_client import Fetched, LogClient
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.batches.records import Record, build_batch

HERE, GONE = Partition("orders", 0), Partition("gone", 0)


async def test_partitions_of_a_deleted_topic_are_left_out_if_it_may_vanish(
    autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    async with record_commands() as commands:
        await commands.produce("a\n", "orders")
        capsys.readouterr()
        spus = SpuClient(commands.running.world.network, [ADDRESS], BOOTSTRAP)
        reader = Consuming({HERE: 0, GONE: 0}, None)
        with pytest.raises(RefusedError, match="gone/0: there is no such partition"):
            await LeaderReading(LogClient(spus), reader).next()
        ((partition, records),) = await LeaderReading(LogClient(spus), reader, "gone".__eq__).next()
        assert (partition, [each.record.value for each in records]) == (HERE, [b"a"])
        assert reader.positions == {HERE: 1}
        assert capsys.readouterr().err == "tailrace consume: gone/0 was deleted\n"
        spus.close()


def test_a_position_outside_a_log_moves_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    reader = Consuming({HERE: 1}, None)
    enter(reader, {HERE: LogEnds(3, 5)})
    assert reader.positions == {HERE: 3}
    assert capsys.readouterr().err == "tailrace consume: orders/0 begins at offset 3\n"


def test_a_corrupt_batch_names_its_partition() -> None:
    batch = build_batch([Record(0, 0, None, b"v")])
    batch[-1] ^= 1
    with pytest.raises(RefusedError, match="orders/0: the batch at offset 0 is corrupt"):
        taken(Consuming({HERE: 0}, None), HERE, Fetched(bytes(batch), 1))
