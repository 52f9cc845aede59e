"""Puts a shorter file in the place of one that has grown, where both say the same: a service, and not a duty."""

from tailrace.runtime.descriptors import once_files_can_be_opened
from tailrace.runtime.files import Files


async def shorten(files: Files, path: str, data: bytes) -> bool:
    """Whether it could be done; if not, as with a full disk, the long file is where it was.

    Raises OSError where the short one took its place, and may not be there any more after a power failure: nothing
    that is written to it would be safe.
    """
    try:
        await once_files_can_be_opened(lambda: files.replace(path, data))
    except OSError:
        if files.read(path) == data:
            raise
        return False
    return True
