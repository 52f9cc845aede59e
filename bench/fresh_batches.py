"""Batches made now: what says that it is older than a week, retention deletes under whoever wrote it."""

import time

from clients.batches import build_batch


def fresh_batch(value: bytes) -> bytes:
    """Of one record."""
    return build_batch([value], timestamp_ms=int(time.time() * 1000))
