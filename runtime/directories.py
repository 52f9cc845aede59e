"""Makes directories durably, so that a power failure cannot remove them together with synced files in them."""

from contextlib import suppress

from .files import Files


async def make_directories_durably(files: Files, path: str) -> None:
    """Makes `path`, which is absolute, and all missing directories above it durably.

    Each directory is on the disk before another one is made in it. So of the existing ones only the last may not be on
    the disk, if a process was killed while it made directories.
    """
    missing = []
    last = path
    while last and not files.exists(last):
        missing.append(last)
        last = _above(last)
    if last:
        with suppress(PermissionError):  # it belongs to another user, who is responsible for it
            await files.sync_directory(_above(last) or "/")
    for directory in reversed(missing):
        files.make_directories(directory)
        await files.sync_directory(_above(directory) or "/")


def _above(directory: str) -> str:
    return directory.rpartition("/")[0]
