"""Tests what a replay says and keeps; `test_dead_letter_commands.py` replays letters."""

from collections.abc import Iterable
from typing import Any

import pytest

from tailrace.cli.triggers import letter_replay
from tailrace.cli.triggers.letter_replay import LetterReplay, ReplayCounts, replay_group, summary
from tailrace.cli.triggers.letter_selection import LetterSelection
from tailrace.client.log_facts import Page, Partition
from tailrace.protocol.batches.records import Record
from tailrace.trigger.dead_letters.dead_letter import Origin, dead_letter
from tailrace.trigger.dead_letters.replay_progress import ReplayProgress
from tailrace.trigger.work import Failure, FailureKind, Output, Shard

HERE = Partition("dead", 0)


class _Producer:
    def __init__(self, happened: list[object]) -> None:
        self._happened = happened

    async def send(self, records: Iterable[Output]) -> None:
        self._happened.append([each.value for each in records])


class _Groups:
    def __init__(self, happened: list[object]) -> None:
        self._happened = happened

    async def commit(self, group: str, offsets: dict[Partition, int], metadata: dict[Partition, str]) -> Any:
        self._happened += [(offsets[each], metadata[each]) for each in offsets]
        return dict.fromkeys(offsets)


def _page(first: int, end: int, letters: Iterable[int], others: Iterable[int] = ()) -> Page:
    failure = Failure(FailureKind.RAISED, 5, 6, "E")
    records = [Record(offset, 5, None, b"other") for offset in others]
    for offset in letters:
        record = Record(0, 5, None, b"%d" % offset)
        output = dead_letter("dead", Origin(Shard("orders", 0), 5, 6, "g"), record, failure, 5)
        records.append(Record(offset, 5, output.key, output.value, list(output.headers)))
    return Page(HERE, first, end, sorted(records, key=lambda each: each.offset))


def _replay(happened: list[object], progress: ReplayProgress, selection: LetterSelection) -> LetterReplay:
    producer: Any = _Producer(happened)
    groups: Any = _Groups(happened)
    return LetterReplay(producer, groups, replay_group("dead"), {HERE: progress}, selection, None, again=False)


async def test_each_portion_is_sent_before_its_progress_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_replay, "PORTION_LETTERS", 2)
    happened: list[object] = []
    replay = _replay(happened, ReplayProgress(0), LetterSelection())
    # Offset 1 has no record, and offset 3 has no letter.
    await replay.take(_page(0, 6, letters=[0, 2, 4], others=[3]))
    await replay.take(_page(6, 8, letters=[7]))
    await replay.replay_portion()
    assert happened == [[b"0", b"2"], (4, "replayed 5"), [b"4", b"7"], (8, "")]
    assert (replay.counts.sent, replay.counts.others) == (4, 1)


async def test_letters_that_were_not_selected_stay_to_be_replayed() -> None:
    happened: list[object] = []
    replay = _replay(happened, ReplayProgress(1), LetterSelection({0: [range(3, 5)]}))
    await replay.take(_page(0, 6, letters=range(6)))
    await replay.replay_portion()
    assert happened == [[b"3", b"4"], (1, "replayed 3-4")]


def test_what_was_not_replayed_is_explained() -> None:
    assert summary(ReplayCounts(), "dead") == []
    before, missing, others = summary(ReplayCounts({}, 2, [f"0/{number}" for number in range(7)], 3), "dead")
    assert before == "2 selected letters were replayed before; --again replays letters again"
    assert "0/0, 0/1, 0/2, 0/3, 0/4, …; `tailrace trigger dead-letters show dead 0/0` says more" in missing
    assert others == "3 records of dead are no dead letters"
