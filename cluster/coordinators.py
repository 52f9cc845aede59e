"""Which partition of an internal topic a group belongs to: whoever leads that partition coordinates the group.

The rule is Kafka's, so that its tools find the groups where they look for them.
"""

GROUPS_TOPIC = "__consumer_offsets"


def partition_of(group_id: str, partitions: int) -> int:
    value = _java_hash(group_id)
    return 0 if value == -(2**31) else abs(value) % partitions


def _java_hash(text: str) -> int:
    """The signed 32 bits that Java computes of a string, which is UTF-16 to it."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(data), 2):
        value = (value * 31 + (data[position] << 8 | data[position + 1])) & 0xFFFF_FFFF
    return value if value < 2**31 else value - 2**32
