import pytest
import trio

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.records.formats.produced_lines import LineFormat, Lines
from tailrace.cli.records.producing.generated_records import GeneratedRecords
from tailrace.cli.records.producing.produce_sources import GeneratedSource, InputSource, Source
from tailrace.client.outgoing_line import BATCH_BYTES_MAX
from tailrace.runtime.chance import RandomChance


def _generated(count: int, rate: float | None, record_bytes: int = 100) -> GeneratedSource:
    return GeneratedSource(GeneratedRecords(RandomChance(0), 10, 3, [0]), count, record_bytes, rate)


async def _sizes(source: Source) -> list[int]:
    sizes = []
    while (entries := await source.next()) is not None:
        sizes.append(len(entries))
    return sizes


async def test_without_a_rate_records_come_in_batches(autojump_clock: object) -> None:
    assert await _sizes(_generated(10, None)) == [10]
    assert await _sizes(_generated(5, None, BATCH_BYTES_MAX // 2)) == [2, 2, 1]
    assert await _sizes(_generated(2, None, BATCH_BYTES_MAX * 2)) == [1, 1]


@pytest.mark.parametrize(("rate", "seconds"), [(1000.0, 3), (2.0, 1500), (0.5, 6000)])
async def test_a_rate_is_kept(autojump_clock: object, rate: float, seconds: float) -> None:
    began = trio.current_time()
    sizes = await _sizes(_generated(3000, rate))
    assert sum(sizes) == 3000
    assert trio.current_time() - began == pytest.approx(seconds, rel=0.02)


async def test_records_of_a_rate_that_brokers_did_not_keep_are_made_up_for(autojump_clock: object) -> None:
    source = _generated(1000, 100.0)
    assert len(await source.next() or ()) == 1
    await trio.sleep(5)
    assert len(await source.next() or ()) == 500


async def test_nothing_is_lost_when_the_wait_for_a_record_ends(autojump_clock: object) -> None:
    source = _generated(3, 0.1)
    await source.next()
    with trio.move_on_after(1):
        await source.next()
    assert await _sizes(source) == [1, 1]


async def test_an_input_ends_with_its_last_line(autojump_clock: object) -> None:
    pieces = [b"one\ntw", b"o\nthree"]

    async def read(count: int) -> bytes:
        return pieces.pop(0) if pieces else b""

    source = InputSource(read, Lines(LineFormat().entry), "standard input")
    assert await _sizes(source) == [1, 1, 1]
    source.check()


async def test_a_wrong_line_and_a_broken_input_are_named(autojump_clock: object) -> None:
    async def read(count: int) -> bytes:
        return b"a:1\nb\n"

    source = InputSource(read, Lines(LineFormat(b":").entry), "standard input")
    assert len(await source.next() or ()) == 1
    with pytest.raises(UsageError, match="line 2 has no ':' after a key"):
        source.check()

    async def fail(count: int) -> bytes:
        raise OSError(5, "Input/output error")

    with pytest.raises(UsageError, match=r"^orders\.txt: Input/output error$"):
        await InputSource(fail, Lines(LineFormat().entry), "orders.txt").next()
