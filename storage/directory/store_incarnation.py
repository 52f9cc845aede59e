"""The incarnation of a data directory's content: another one as soon as something of what was written may be gone.

Whoever knows that this store had something knows it of an incarnation. Logs that were closed are whole, and so are
those of a process that was killed while the machine went on: what it wrote is in the page cache, or on the disk. Only
when the machine itself stopped in between may the ends of logs be missing, or when the disk had failed: what could not
be written the page cache drops one day.
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
    """The one that this start goes on with: the last one's, or `new`. It is on the disk when this returns, and so is
    the doubt in what replicas lie here. `clean`: whoever wrote the logs last closed them all. `lacks_replicas`: some of
    them have gone since."""
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
    """Incarnation and boot; None when there is nothing that can be believed."""
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
