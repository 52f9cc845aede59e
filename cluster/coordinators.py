"""Computes the partition to which a group or a transactional id belongs; the leader of the partition coordinates it.

The rule is that of Kafka, so that Kafka's tools find them.
"""

from functools import lru_cache

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"

_KEPT_KEYS, _KEPT_LENGTH_MAX = 1024, 100
"""How many hashes of keys are kept, and the longest such key. A transaction needs that of its id several times."""


def partition_of(key: str, partitions: int) -> int:
    """Returns the partition of a group or a transactional id if its topic has `partitions` partitions."""
    value = (_kept_hash if len(key) <= _KEPT_LENGTH_MAX else _java_hash)(key)
    return 0 if value == -(2**31) else abs(value) % partitions


def _java_hash(text: str) -> int:
    """Returns the hash code that Java computes of a string, which is a signed number of 32 bits over its UTF-16."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(data), 2):
        value = (value * 31 + (data[position] << 8 | data[position + 1])) & 0xFFFF_FFFF
    return value if value < 2**31 else value - 2**32


_kept_hash = lru_cache(_KEPT_KEYS)(_java_hash)
