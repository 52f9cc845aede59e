"""The system calls that send and sync records: the best ones of this platform, chosen once.

Without sendfile, records are copied through this process. Without fdatasync, a sync also writes metadata that is not
needed, such as the modification time. Both are slower and otherwise equivalent.
"""

import os
from collections.abc import Callable

SENT_AT_ONCE_BYTES_MAX = 256 * 1024


def send_copied(out_descriptor: int, in_descriptor: int, position: int, count: int) -> int:
    """Does what os.sendfile does, with a copy. Returns how many bytes were taken; 0 at the end of the file."""
    data = os.pread(in_descriptor, min(count, SENT_AT_ONCE_BYTES_MAX), position)
    return os.write(out_descriptor, data) if data else 0


send_file: Callable[[int, int, int, int], int] = getattr(os, "sendfile", send_copied)
sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)

SENDING = send_file.__name__
SYNCING = sync_data.__name__
