import pytest
from record_commands import RecordCommands, record_commands

Capture = pytest.CaptureFixture[str]


async def _tail(commands: RecordCommands, capsys: Capture, *words: str) -> list[str]:
    capsys.readouterr()
    assert await commands.consume("orders", "--values", *words) == 0
    return capsys.readouterr().out.splitlines()


async def test_the_last_records_of_all_partitions_come_in_the_order_of_time(
    autojump_clock: object, capsys: Capture
) -> None:
    async with record_commands(partitions=3) as commands:
        for number in range(9):
            assert await commands.produce(f"{number}\n", f"orders/{min(number % 4, 2)}") == 0
            commands.running.world.clock.time_ms += 1000
        assert await _tail(commands, capsys, "--tail", "5") == ["4", "5", "6", "7", "8"]
        assert await _tail(commands, capsys, "--tail", "100") == [str(number) for number in range(9)]
        assert await _tail(commands, capsys, "--tail", "2", "--to", "1s") == ["6", "7"]


async def test_records_of_one_partition_stay_in_order(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        lines = [f'{{"value": "{number}", "timestamp": {100 - number}}}' for number in range(9)]
        assert await commands.produce("\n".join(lines), "orders", "--json") == 0
        assert await _tail(commands, capsys, "--tail", "3") == ["6", "7", "8"]


async def test_a_filter_makes_it_look_further_back(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        text = "".join(f"key-{number % 10}:{number}\n" for number in range(100))
        assert await commands.produce(text, "orders", "--key-separator", ":") == 0
        assert await _tail(commands, capsys, "--tail", "3", "--key", "key-4") == ["74", "84", "94"]
        assert len(await _tail(commands, capsys, "--tail", "30", "--key", "key-4")) == 10


async def test_an_empty_topic_has_no_last_records(autojump_clock: object, capsys: Capture) -> None:
    async with record_commands() as commands:
        assert await _tail(commands, capsys, "--tail", "3") == []
