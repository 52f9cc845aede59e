"""Makes directories durably: what is synced in a directory that was not is lost with it in a power failure."""

from contextlib import suppress

from .files import Files


async def make_directories_durably(files: Files, path: str) -> None:
    """`path` is absolute. Each is on the disk before there is another one in it: so of those that are there already
    only the last may not be, if the process that made it was killed."""
    missing = []
    last = path
    while last and not files.exists(last):
        missing.append(last)
        last = _above(last)
    if last:
        with suppress(PermissionError):  # somebody else's affair then
            await files.sync_directory(_above(last) or "/")
    for directory in reversed(missing):
        files.make_directories(directory)
        await files.sync_directory(_above(directory) or "/")


def _above(directory: str) -> str:
    return directory.rpartition("/")[0]
