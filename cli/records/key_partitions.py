"""Chooses the partition of a key with murmur2, as Kafka's own clients do.

So a key that other clients also produce to stays in one partition.
"""

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFF_FFFF


def partition_of_key(key: bytes, count: int) -> int:
    """Returns the partition of a key in a topic with `count` partitions."""
    return (murmur2(key) & 0x7FFF_FFFF) % count


def murmur2(data: bytes) -> int:
    """Returns the 32-bit murmur2 hash of `data`, with the seed of Kafka's clients."""
    whole = len(data) & ~3
    value = _SEED ^ len(data)
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        value = value * _M & _MASK ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15
