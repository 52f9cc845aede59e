import pytest
from grouped_spu import grouped_spu
from spus import ADDRESS

from tailrace.cli.triggers.letter_reading import bounds_of, letter_partitions, letters
from tailrace.cli.triggers.letter_selection import LetterSelection
from tailrace.client.log_client import LogClient
from tailrace.client.server_connection import RefusedError, answered
from tailrace.client.spu_client import BOOTSTRAP, SpuClient

DEAD = "dead"


async def test_records_are_read_between_the_bounds_also_if_some_were_deleted(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create(DEAD, 2)
        for _ in range(3):
            await spu.produce(DEAD, 0, 4, timestamp=1_000)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        client = LogClient(spus)
        logs = answered(await client.ends(await letter_partitions(client, DEAD)))

        async def offsets(selection: LetterSelection) -> list[int]:
            bounds = await bounds_of(client, logs, selection)
            return [record.offset async for page in client.pages(bounds) for record in page.records]

        assert await offsets(LetterSelection()) == list(range(12))
        assert await offsets(LetterSelection({0: [range(2, 3), range(5, 7)]})) == [2, 3, 4, 5, 6]
        assert await offsets(LetterSelection({1: [range(2, 3)]})) == []
        assert await offsets(LetterSelection(since_ms=1_002)) == list(range(2, 12))
        assert await offsets(LetterSelection(since_ms=9_000)) == []
        assert not [each async for each in letters(client, logs, LetterSelection())], "the records are no letters"
        await spu.delete_records(DEAD, 0, 5)
        assert await offsets(LetterSelection()) == list(range(5, 12))
        with pytest.raises(RefusedError, match=r"^there is no topic nope; a topic of dead letters is created"):
            await letter_partitions(client, "nope")
        spus.close()
