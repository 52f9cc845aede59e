"""The store incarnation: an id of the stored data, which changes if a power failure may have lost some of it.

Others remember what this store had together with its incarnation. Closed logs are complete. Logs of a process that was
killed are complete as well if the machine kept running, because the page cache or the disk has what it wrote. The ends
of logs may be missing only if the machine stopped in between, or if the disk failed: the page cache eventually drops
data that it cannot write.
"""

from uuid import UUID

import crc32c

from tailrace.runtime.files import Files

from .layout import store_path
from .promises import Promises

_PREFIX = "tailrace store"


async def take_store_incarnation(
    files: Files, data_directory: str, promises: Promises, *, clean: bool, lacks_replicas: bool, new: UUID
) -> str:
    """Returns the incarnation of this start: the previous one, or `new` if data may be lost.

    The incarnation, and the doubt in the replicas of this store, are on the disk when this returns. `clean`: the last
    process closed all its logs. `lacks_replicas`: some of them have been removed since.
    """
    await promises.note_what_is_missing()
    if not clean:
        await promises.settle()
    path = store_path(data_directory)
    boot = files.boot_id()
    known = read_store(files, data_directory)
    is_same_boot = boot and known is not None and known[1] == boot
    is_whole = clean or (is_same_boot and not promises.has_disk_failed)
    if known is not None and is_whole and not lacks_replicas and not promises.is_incomplete:
        incarnation = known[0]
    else:
        incarnation = str(new)
        await promises.doubt_all()
    if known != (incarnation, boot):
        await files.replace(path, _line(incarnation, boot))
    await promises.trust_disk()
    return incarnation


def read_store(files: Files, data_directory: str) -> tuple[str, str] | None:
    """Returns the saved incarnation and the machine's boot id; None if the file is missing or damaged."""
    path = store_path(data_directory)
    if not files.exists(path):
        return None
    line = files.read(path)
    words = line.decode(errors="replace").removeprefix(_PREFIX).split()
    if len(words) < 2:
        return None
    incarnation, boot = words[0], words[1] if len(words) > 2 else ""
    return (incarnation, boot) if line == _line(incarnation, boot) else None


def _line(incarnation: str, boot: str) -> bytes:
    text = f"{_PREFIX} {incarnation} {boot}".rstrip()
    return f"{text} {crc32c.crc32c(text.encode()):08x}\n".encode()
