"""Tests `tailrace transaction list` and `describe` on a whole SPU."""

import json

import pytest
from transacting_spu import transacting_spu

Capture = pytest.CaptureFixture[str]
BEGAN = "2023-11-14T22:13:20.000Z"
PRODUCER = "1700000000000000"


async def test_transactional_ids_are_listed_with_their_states(autojump_clock: object, capsys: Capture) -> None:
    async with transacting_spu() as spu:
        assert await spu.tailrace("list") == 0
        assert capsys.readouterr().out == (
            "TRANSACTIONAL ID  STATE          PRODUCER  COORDINATOR  BEGAN  PARTITIONS\n"
            "id                Empty  1700000000000000            1      -           -\n"
        )
        await spu.producer.add("t", 0, 1)
        assert await spu.tailrace("list") == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["id", "Ongoing", PRODUCER, "1", BEGAN, "2"]
        spu.clock.time_ms += 30_000
        for words, count in (
            (("--state", "ongoing"), 1),
            (("--state", "Empty"), 0),
            (("--producer-id", PRODUCER, "--pattern", "i."), 1),
            (("--producer-id", "1"), 0),
            (("--pattern", "i"), 0),
            (("--longer-than", "29s"), 1),
            (("--longer-than", "30s"), 0),
        ):
            assert await spu.tailrace("list", *words, "--output", "json") == 0
            listed = json.loads(capsys.readouterr().out)
            assert len(listed) == count, words
        assert await spu.tailrace("list", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == [
            {
                "transactionalId": "id",
                "state": "Ongoing",
                "producerId": int(PRODUCER),
                "coordinator": 1,
                "began": BEGAN,
                "partitions": ["t/0", "t/1"],
            }
        ]


async def test_a_pattern_that_is_none_is_refused(autojump_clock: object, capsys: Capture) -> None:
    async with transacting_spu() as spu:
        assert await spu.tailrace("list", "--pattern", "(") == 1
        assert capsys.readouterr().err == "tailrace transaction list: ( is not a valid regular expression\n"


async def test_a_transaction_is_described_with_its_client_and_what_happens_next(
    autojump_clock: object, capsys: Capture
) -> None:
    async with transacting_spu() as spu:
        await spu.producer.add("t", 1)
        spu.clock.time_ms += 18_000
        assert await spu.tailrace("describe", "id") == 0
        assert capsys.readouterr().out == (
            "Transactional id: id\n"
            "State:            Ongoing\n"
            f"Producer:         {PRODUCER}, epoch 0\n"
            "Client:           test at 192.0.2.1\n"
            f"Began:            {BEGAN}, 18 s ago\n"
            "Timeout:          1 m\n"
            "Partitions:       t/1\n"
            "Coordinator:      SPU 1, partition 5 of __transaction_state, epoch 0\n"
            "Next:             It times out at 2023-11-14T22:14:20.000Z, in 42 s, and is aborted then, unless its "
            "producer ends it before.\n"
        )
        await spu.producer.end(commit=True)
        assert await spu.tailrace("describe", "id", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert document["next"] == "It has no open transaction. Its last one was committed."
        assert (document["began"], document["timesOut"], document["clientId"]) == (None, None, "test")


async def test_ids_that_exist_are_described_beside_others(autojump_clock: object, capsys: Capture) -> None:
    async with transacting_spu() as spu:
        assert await spu.tailrace("describe", "nobody", "id", "--output", "json") == 1
        said = capsys.readouterr()
        assert [each["transactionalId"] for each in json.loads(said.out)] == ["id"]
        assert said.err == "tailrace transaction describe: there is no transactional id nobody\n"
