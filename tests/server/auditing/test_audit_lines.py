"""The lines of an audit log that its topic does not have yet."""

import pytest
from audit_logs import DIRECTORY, NOW_MS, disk, event, opened
from simulation.files import SimulatedFiles

from tailrace.security.audit.audit_chain import parse_line
from tailrace.server.auditing.audit_files import AuditFiles, log_names
from tailrace.server.auditing.audit_lines import POSITION, AuditLines


async def _lines(files: SimulatedFiles, log: AuditFiles) -> AuditLines:
    lines = AuditLines(DIRECTORY, files, lambda: log.end)
    await lines.open("c1")
    return lines


async def _taken(lines: AuditLines) -> list[int]:
    """Returns the numbers of all lines that are not copied yet, and stores that they are."""
    numbers = []
    while (chunk := lines.next()) is not None:
        for line in chunk.lines:
            parsed = parse_line(line)
            assert parsed is not None
            numbers.append(parsed.number)
        await lines.advance(chunk)
    return numbers


async def test_each_line_comes_once_also_after_a_restart() -> None:
    files = disk()
    log = await opened(files)
    lines = await _lines(files, log)
    assert lines.next() is None
    await log.write([event("a"), event("b")], NOW_MS)
    assert await _taken(lines) == [1, 2, 3, 4, 5]
    await log.write([event("c")], NOW_MS)
    lines = await _lines(files, log)
    assert await _taken(lines) == [6, 7]
    log = await opened(files)
    lines = await _lines(files, log)
    await log.write([event("d")], NOW_MS)
    assert await _taken(lines) == [8, 9, 10, 11]
    assert lines.chain == "c1"


async def test_a_line_that_was_not_stored_as_copied_comes_again() -> None:
    files = disk()
    log = await opened(files)
    lines = await _lines(files, log)
    await log.write([event("a")], NOW_MS)
    first = lines.next()
    assert first is not None and lines.next() == first
    assert (await _lines(files, log)).next() == first


async def test_bytes_of_a_write_that_is_not_done_are_left_out() -> None:
    files = disk()
    log = await opened(files)
    lines = await _lines(files, log)
    await log.write([event("a")], NOW_MS)
    (name,) = log_names(files, DIRECTORY)
    files.open(f"{DIRECTORY}/{name}").append(b'{"n":5,"hash":"x"}\n')
    assert await _taken(lines) == [1, 2, 3, 4]
    lines = AuditLines(DIRECTORY, files, lambda: None)  # the file is of an earlier process
    files.remove(f"{DIRECTORY}/{POSITION}")
    await lines.open("c2")
    chunk = lines.next()
    assert chunk is not None and len(chunk.lines) == 5


async def test_lines_that_were_removed_first_are_counted() -> None:
    files = disk()
    log = await opened(files, file_bytes=1, retained_bytes=1500)
    lines = await _lines(files, log)
    await log.write([event("a")], NOW_MS)
    assert await _taken(lines) == [1, 2, 3, 4]
    for name in "bcdefgh":
        await log.write([event(name)], NOW_MS)
    oldest = int(log_names(files, DIRECTORY)[0].removeprefix("audit-").removesuffix(".log"))
    chunk = lines.next()
    assert chunk is not None and chunk.missed == oldest - 5 > 0
    assert (await _taken(lines))[-1] == 32


@pytest.mark.parametrize("content", [b"", b"{}", b'{"n": null}'])
async def test_a_damaged_position_begins_another_chain(content: bytes) -> None:
    files = disk()
    log = await opened(files)
    await log.write([event("a")], NOW_MS)
    await files.replace(f"{DIRECTORY}/{POSITION}", content)
    lines = await _lines(files, log)
    assert lines.chain == "c1" and await _taken(lines) == [1, 2, 3, 4]
