"""What a crash of the simulated machine keeps, and what it loses."""

import errno
from random import Random

import pytest
from simulation.files import SimulatedFile, SimulatedFiles

pytestmark = pytest.mark.trio


@pytest.fixture
async def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/d")
    await files.sync_directory("")
    return files


async def test_unsynced_content_is_lost(files: SimulatedFiles) -> None:
    file = files.open("/d/a", create=True)
    file.append(b"abc")
    await file.sync()
    assert files.crash("synced").list("/d") == []  # its directory entry was not synced
    assert files.crash("all").read("/d/a") == b"abc"
    await files.sync_directory("/d")
    file.append(b"def")
    assert files.crash("synced").read("/d/a") == b"abc"
    assert files.crash("all").read("/d/a") == b"abcdef"


async def test_the_content_of_an_unsynced_directory_is_lost(files: SimulatedFiles) -> None:
    files.make_directories("/d/e")
    file = files.open("/d/e/a", create=True)
    await file.sync()
    await files.sync_directory("/d/e")
    assert files.crash("synced").list("/d") == []
    await files.sync_directory("/d")
    assert files.crash("synced").list("/d/e") == ["a"]


async def _synced_file(files: SimulatedFiles) -> SimulatedFile:
    file = files.open("/d/a", create=True)
    file.append(b"abc")
    await file.sync()
    await files.sync_directory("/d")
    return file


async def test_a_flipped_bit_is_flipped_in_every_view_until_it_is_written_again(files: SimulatedFiles) -> None:
    file = await _synced_file(files)
    mapped = file.map()
    files.flip("/d/a", 1, 0, is_covered=True)
    for each in (files, files.after_kill(), files.crash("synced")):
        assert each.read("/d/a") == b"acc"
        assert list(each.flipped()) == ["/d/a"]
    assert mapped == b"acc"
    file.write_at(1, b"b")
    assert files.flipped() == {}
    assert list(files.crash("synced").flipped()) == ["/d/a"]
    await file.sync()
    assert files.crash("synced").flipped() == {}


async def test_what_only_a_process_knew_is_restored_when_it_ends_unless_it_was_repaired(
    files: SimulatedFiles,
) -> None:
    file = await _synced_file(files)
    for position, is_noted in enumerate((False, False, True)):
        files.flip("/d/a", position, 0, is_covered=True, is_noted=is_noted)
    assert files.read("/d/a") == b"`cb"
    file.write_at(1, b"x")
    files.flip_back()
    assert [each.read("/d/a") for each in (files, files.crash("synced"))] == [b"axb", b"abb"]
    files.open("/d/a").write_at(0, b"acc")  # the new byte may equal the flipped one
    assert files.flipped() == {}


async def test_bits_flip_only_in_synced_content(files: SimulatedFiles) -> None:
    file = files.open("/d/a", create=True)
    file.append(b"abc")
    assert files.end_at_rest("/d/a") == 0
    await file.sync()
    await files.sync_directory("/d")
    file.append(b"de")
    assert files.end_at_rest("/d/a") == 3
    files.flip("/d/a", 2, 0, is_covered=True)
    assert [each.read("/d/a") for each in (files, files.crash("synced"))] == [b"abbde", b"abb"]
    file.write_at(1, b"x")
    assert files.end_at_rest("/d/a") == 0


async def test_a_crash_leaves_any_prefix_and_a_torn_write(files: SimulatedFiles) -> None:
    file = files.open("/d/a", create=True)
    await files.sync_directory("/d")
    file.append(b"abc")
    await file.sync()
    file.append(b"def")
    file.append(b"ghi")
    found = {files.crash(Random(seed)).read("/d/a") for seed in range(300)}
    whole = b"abcdefghi"
    assert {whole[:size] for size in range(3, 9)} <= found
    assert all(content[:3] == b"abc" for content in found)
    assert any(content[3:6] == b"\0\0\0" for content in found)  # the second write reached the disk first


async def test_renames_and_removals_may_come_back(files: SimulatedFiles) -> None:
    for name in ("/d/a", "/d/b"):
        files.open(name, create=True).append(name.encode())
        await files.open(name).sync()
    await files.sync_directory("/d")
    files.rename("/d/a", "/d/c")
    files.remove("/d/b")
    found = {tuple(files.crash(Random(seed)).list("/d")) for seed in range(30)}
    assert found == {("a", "b"), ("b", "c"), ("c",)}


async def test_a_replaced_file_is_the_old_or_the_new_one(files: SimulatedFiles) -> None:
    await files.replace("/d/a", b"old")
    found: set[bytes] = set()
    files.on_operation = lambda: found.update(files.crash(Random(seed)).read("/d/a") for seed in range(20))
    await files.replace("/d/a", b"newer")
    assert found == {b"old", b"newer"}
    assert files.crash("synced").read("/d/a") == b"newer"


async def test_the_files_after_a_crash_are_independent(files: SimulatedFiles) -> None:
    file = files.open("/d/a", create=True)
    file.append(b"abc")
    after = files.crash("all")
    file.append(b"def")
    after.open("/d/a").append(b"x")
    assert (file.read_at(0, 9), after.read("/d/a")) == (b"abcdef", b"abcx")


async def test_only_a_crash_that_keeps_everything_leaves_the_machine_running(files: SimulatedFiles) -> None:
    assert files.crash("all").crash("all").boot_id() == files.boot_id()
    boots = [files.boot_id(), files.crash("synced").boot_id(), files.crash("synced").crash(Random(1)).boot_id()]
    assert len(set(boots)) == 3


async def test_a_full_disk_accepts_what_fits(files: SimulatedFiles) -> None:
    file = files.open("/d/a", create=True)
    files.room_bytes = 4
    file.append(b"abc")
    with pytest.raises(OSError) as caught:
        file.append(b"def")
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(0, 9) == b"abcd"
    file.write_at(0, b"ABCD")
    file.truncate(0)
    file.append(b"xyz")


async def test_content_of_a_failed_sync_stays_readable_but_never_reaches_the_disk(
    files: SimulatedFiles,
) -> None:
    file = await _synced_file(files)
    file.append(b"def")
    files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await file.sync()
    files.syncs_fail = False
    next_process = files.after_kill()
    file = next_process.open("/d/a")
    file.append(b"ghi")
    await file.sync()
    for found in (next_process, next_process.crash("all")):
        assert found.read("/d/a") == b"abcdefghi"
    assert next_process.crash("synced").read("/d/a") == b"abc\0\0\0ghi"
    assert not next_process.is_at_rest("/d/a")
    file.write_at(3, file.read_at(3, 3))
    await file.sync()
    assert next_process.crash("synced").read("/d/a") == b"abcdefghi"
    assert next_process.is_at_rest("/d/a")


async def test_a_broken_disk_syncs_nothing(files: SimulatedFiles) -> None:
    file = files.open("/d/a", create=True)
    files.syncs_fail = True
    for attempt in (file.sync(), files.sync_directory("/d"), files.replace("/d/b", b"")):
        with pytest.raises(OSError):
            await attempt
