import pytest
import trio
from simulation.files import SimulatedFiles

from tailrace.storage.directory.file_shortening import shorten

pytestmark = pytest.mark.trio


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/d")
    files.open("/d/f", create=True).append(b"long")
    return files


async def test_the_short_file_takes_the_place_of_the_long_one(files: SimulatedFiles) -> None:
    assert await shorten(files, "/d/f", b"s")
    assert files.read("/d/f") == b"s"


async def test_without_room_the_long_file_stays(files: SimulatedFiles) -> None:
    files.room_bytes = 0
    assert not await shorten(files, "/d/f", b"s")
    assert files.read("/d/f") == b"long"


async def test_a_replacement_that_may_not_be_durable_is_an_error(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = files.replace

    async def replace_without_directory(path: str, data: bytes) -> None:
        await replace(path, data)
        raise OSError("the directory was not synced")

    monkeypatch.setattr(files, "replace", replace_without_directory)
    with pytest.raises(OSError, match="not synced"):
        await shorten(files, "/d/f", b"s")


async def test_it_waits_until_files_can_be_opened(files: SimulatedFiles, autojump_clock: object) -> None:
    """The replacement may have got as far as the sync of the directory."""
    await files.sync_directory("")
    for opens in range(3):
        files.opens_left = opens
        async with trio.open_nursery() as nursery:
            nursery.start_soon(files.close_others_after, 3)
            assert await shorten(files, "/d/f", b"s")
        assert files.crash("synced").content("/d/f") == b"s"
