"""Makes record batches with current timestamps, because retention would delete records that claim to be a week old."""

import time

from clients.batches import build_batch


def fresh_batch(value: bytes) -> bytes:
    """Returns a batch of one record."""
    return build_batch([value], timestamp_ms=int(time.time() * 1000))
