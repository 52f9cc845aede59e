"""Replaces a file that has grown by a shorter file with the same meaning, if the disk has room.

Shortening is optional: the long file remains valid if the replacement fails.
"""

from tailrace.runtime.descriptors import retry_when_out_of_files
from tailrace.runtime.files import Files


async def shorten(files: Files, path: str, data: bytes) -> bool:
    """Replaces the file by one with this content. Returns whether that worked; if not, the long file is still in place.

    Raises OSError if the short file took its place but may not be there after a power failure. Then nothing that is
    appended to it would be safe.
    """
    try:
        await retry_when_out_of_files(lambda: files.replace(path, data))
    except OSError:
        if files.read(path) == data:
            raise
        return False
    return True
