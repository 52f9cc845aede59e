from typing import TypeAlias

import pytest
from record_commands import RecordCommands, record_commands

from tailrace.cli.records.consuming.quorum_client import QuorumClient, QuorumFetched, TooFewStoresError
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.batches.record_batch import stamp
from tailrace.protocol.batches.records import Record, build_batch

Capture: TypeAlias = pytest.CaptureFixture[str]


async def _filled(commands: RecordCommands, capsys: Capture) -> None:
    for number in range(5):
        assert await commands.produce(f"{number}\n", "orders") == 0
    capsys.readouterr()


async def _values(commands: RecordCommands, capsys: Capture, *words: str) -> str:
    status = await commands.consume("orders", "--values", *words)
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out.replace("\n", "")


def _replicas_say(patch: pytest.MonkeyPatch, *answers: QuorumFetched | RefusedError) -> list[int]:
    """Scripts the responses of replicas and returns the requested offsets. The last response repeats."""
    asked: list[int] = []

    async def read(self: QuorumClient, partition: Partition, offset: int) -> QuorumFetched:
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append(offset)
        if isinstance(answer, RefusedError):
            raise answer
        return answer

    patch.setattr(QuorumClient, "read", read)
    return asked


def _batch_at(base: int, *values: bytes) -> bytes:
    batch = build_batch([Record(offset, 0, None, value) for offset, value in enumerate(values)])
    stamp(batch, 0, base, 0)
    return bytes(batch)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "01234"),
        (["--from", "3"], "34"),
        (["--from", "9"], ""),
        (["--count", "2"], "01"),
        (["--from", "1", "--to", "3"], "12"),
    ],
)
async def test_no_leader_has_to_be_asked(
    autojump_clock: object, capsys: Capture, words: list[str], expected: str
) -> None:
    async with record_commands() as commands:
        await _filled(commands, capsys)
        assert await _values(commands, capsys, "--quorum", *words) == expected


async def test_what_recovery_wrote_between_is_passed_over(
    autojump_clock: object, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with record_commands() as commands:
        first = QuorumFetched(0, 5, 9, _batch_at(0, b"a", b"b"), 2, ())
        asked = _replicas_say(monkeypatch, first, QuorumFetched(7, 9, 9, _batch_at(7, b"c", b"d"), 9, ()))
        assert await commands.consume("orders", "--quorum", "--values") == 0
        captured = capsys.readouterr()
        assert (captured.out, asked) == ("a\nb\nc\nd\n", [0, 5])
        assert "orders/0 begins at offset 7" in captured.err


async def test_what_the_replicas_cannot_tell_is_said_in_the_end(
    autojump_clock: object, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with record_commands() as commands:
        shown = QuorumFetched(0, 1, 3, _batch_at(0, b"a"), 1, ())
        _replicas_say(monkeypatch, shown, QuorumFetched(1, 1, 3, b"", 1, ("SPU 2 does not answer within 3 seconds",)))
        assert await commands.consume("orders", "--quorum", "--values") == 1
        captured = capsys.readouterr()
        assert captured.out == "a\n"
        assert (
            "orders/0: everything below offset 1 is acknowledged and has been shown; whether the records up to 3"
            in captured.err
        )
        assert "SPU 2 does not answer within 3 seconds" in captured.err


async def test_too_few_replicas_are_waited_for_and_then_named(
    autojump_clock: object, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with record_commands() as commands:
        too_few = TooFewStoresError("orders/0: too few of its replicas answer")
        _replicas_say(monkeypatch, too_few, QuorumFetched(0, 1, 1, _batch_at(0, b"a"), 1, ()))
        assert await _values(commands, capsys, "--quorum") == "a"
        _replicas_say(monkeypatch, too_few)
        assert await commands.consume("orders", "--quorum") == 1
        assert "orders/0: too few of its replicas answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--uncommitted"], "--quorum and --uncommitted cannot be used together"),
        (["--from", "end", "--follow"], "--from must be beginning or an offset"),
        (["--from", "90m"], "--from must be beginning or an offset"),
        (["--to", "90m"], "--to must be an offset"),
        (["--tail", "3"], "--quorum and --tail cannot be used together"),
    ],
)
async def test_what_only_a_leader_knows_is_not_asked_of_a_quorum(
    autojump_clock: object, capsys: Capture, words: list[str], sentence: str
) -> None:
    async with record_commands() as commands:
        assert await commands.consume("orders", "--quorum", *words) != 0
        assert sentence in capsys.readouterr().err
