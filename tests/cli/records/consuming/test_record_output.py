import json

import pytest
import yaml

from tailrace.cli.records.consuming.record_output import PIECE_BYTES, Format, RecordOutput, output_format, value_format
from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.client.log_facts import Partition
from tailrace.protocol.batches.records import Record


def _records(count: int, value: bytes | None = b"v" * 1000) -> list[Consumed]:
    return [Consumed(Partition("orders", 0), Record(offset, 0, None, value), True) for offset in range(count)]


async def _written(form: Format, records: list[Consumed]) -> list[bytes]:
    pieces: list[bytes] = []

    async def write(data: bytes) -> None:
        pieces.append(data)

    await RecordOutput(form, write).show(records)
    return pieces


@pytest.mark.trio
async def test_records_are_written_in_pieces() -> None:
    pieces = await _written(value_format, _records(1000))
    assert b"".join(pieces) == (b"v" * 1000 + b"\n") * 1000
    assert max(map(len, pieces)) < PIECE_BYTES + 1001
    assert await _written(value_format, []) == []


@pytest.mark.trio
async def test_each_format_has_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    records = _records(1, "ä".encode())
    assert await _written(output_format("table"), records) == [
        'orders/0  0  1970-01-01T00:00:00.000Z  -  "ä"\n'.encode()
    ]
    (line,) = await _written(output_format("json"), records)
    assert json.loads(line)["value"] == "ä"
    (document,) = await _written(output_format("yaml"), records)
    assert (document[:4], yaml.safe_load(document)) == (b"---\n", json.loads(line))
    assert await _written(value_format, _records(1, None)) == [b"\n"]
