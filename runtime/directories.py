"""Makes directories durably: what is synced in a directory that was not is lost with it in a power failure."""

from .files import Files


async def make_directories_durably(files: Files, path: str) -> None:
    """`path` is absolute. Directories that exist already are taken to be on the disk."""
    made = []
    directory = path
    while directory and not files.exists(directory):
        made.append(directory)
        directory = directory.rpartition("/")[0]
    files.make_directories(path)
    for directory in made:
        await files.sync_directory(directory.rpartition("/")[0] or "/")
