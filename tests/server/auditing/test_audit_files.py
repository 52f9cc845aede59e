"""The files of an audit log."""

import pytest
import structlog
import trio
from audit_logs import DIRECTORY, NOW_MS, disk, event, opened, verified

from tailrace.security.audit.audit_signatures import KeyFileError
from tailrace.server.auditing.audit_files import AuditFiles, AuditFileSettings, log_names


async def test_events_are_on_the_disk_signed_and_stay_over_a_restart() -> None:
    files = disk()
    log = await opened(files)
    await log.write([event("a"), event("b")], NOW_MS)
    await log.write([event("c")], NOW_MS)
    files = files.crash(lambda: 0)
    log = await opened(files)
    await log.write([event("d")], NOW_MS)
    log.close()
    summary, seen = verified(files)
    assert summary.faults == []
    assert summary.signed == summary.end.number
    assert seen == ["begin", "a", "b", "c", "begin", "d"]


async def test_a_full_disk_loses_the_batch_and_the_log_stays_intact() -> None:
    files = disk()
    log = await opened(files)
    await log.write([event("a")], NOW_MS)
    files.room_bytes = 50
    with pytest.raises(OSError):
        await log.write([event("b")], NOW_MS)
    files.room_bytes = None
    await log.write([event("c")], NOW_MS)
    summary, seen = verified(files)
    assert (summary.faults, seen) == ([], ["begin", "a", "c"])


async def test_a_full_disk_at_the_start_is_no_end() -> None:
    files = disk()
    log = await opened(files)
    files.room_bytes = 50
    for _ in range(2):
        with pytest.raises(OSError):
            await log.write([event("a")], NOW_MS)
    files.room_bytes = None
    await log.write([event("b")], NOW_MS)
    summary, seen = verified(files)
    assert (summary.faults, seen) == ([], ["begin", "b"])


async def test_an_incomplete_write_of_an_earlier_process_is_passed_over() -> None:
    files = disk()
    log = await opened(files)
    await log.write([event("a")], NOW_MS)
    log.close()
    (name,) = log_names(files, DIRECTORY)
    files.open(f"{DIRECTORY}/{name}").append(b'{"n":4,"event":"cha')
    log = await opened(files)
    await log.write([event("b")], NOW_MS)
    summary, seen = verified(files)
    assert (summary.faults, seen) == ([], ["begin", "a", "begin", "b"])


async def test_lines_that_were_removed_while_no_server_ran_are_reported_and_stay_missing() -> None:
    files = disk()
    log = await opened(files)
    for name in "abc":
        await log.write([event(name)], NOW_MS)
    log.close()
    (name,) = log_names(files, DIRECTORY)
    path = f"{DIRECTORY}/{name}"
    whole = files.read(path)
    files.open(path).truncate(
        whole.index(b'"b"') - len(b'{"n":4,"time":"2023-11-14T22:13:20.000Z","event":"change","resource":')
    )
    with structlog.testing.capture_logs() as logged:
        log = await opened(files)
    assert [(each["event"], each["lines"]) for each in logged] == [("audit_log_truncated", 4)]
    await log.write([event("d")], NOW_MS)
    summary, _ = verified(files)
    assert "lines 5 to 8 are missing" in summary.faults[0]


async def test_a_write_that_is_cancelled_leaves_no_lines_that_do_not_count() -> None:
    files = disk()
    log = await opened(files)
    await log.write([event("a")], NOW_MS)
    with trio.CancelScope() as scope:
        scope.cancel()
        await log.write([event("b")], NOW_MS)
    await log.write([event("c")], NOW_MS)
    summary, seen = verified(files)
    assert (summary.faults, seen) == ([], ["begin", "a", "c"])


async def test_files_are_rolled_and_the_oldest_removed() -> None:
    files = disk()
    log = await opened(files, file_bytes=1000, retained_bytes=4000)
    for number in range(40):
        await log.write([event(str(number))], NOW_MS)
    names = log_names(files, DIRECTORY)
    assert len(names) > 2
    assert sum(files.size(f"{DIRECTORY}/{name}") for name in names) < 6000
    summary, seen = verified(files)
    assert (summary.faults, seen[-1]) == ([], "39")
    assert summary.first > 1


async def test_the_key_can_be_given_and_is_not_replaced() -> None:
    files = disk()
    first = await opened(files)
    await first.write([event("a")], NOW_MS)
    key = files.read(f"{DIRECTORY}/signing-key.pem")
    other = AuditFiles(AuditFileSettings("/other", "/data/key.pem"), files, structlog.get_logger())
    files.make_directories("/other")
    files.write_private("/data/key.pem", key)
    await other.open()
    assert not files.exists("/other/signing-key.pem")
    assert files.read("/other/verification-key.pem") == files.read(f"{DIRECTORY}/verification-key.pem")
    files.write_private("/data/wrong.pem", b"x")
    wrong = AuditFiles(AuditFileSettings("/other", "/data/wrong.pem"), files, structlog.get_logger())
    with pytest.raises(KeyFileError, match=r"/data/wrong.pem cannot sign the audit log: it is not a private"):
        await wrong.open()
