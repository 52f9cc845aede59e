import pytest

from tailrace.client.partition_chooser import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_clients(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFF_FFFF


def test_a_key_has_one_of_the_partitions() -> None:
    assert partition_of_key(b"abc", 10) == 479470107 % 10
    assert {partition_of_key(b"%d" % number, 3) for number in range(100)} == {0, 1, 2}
    assert partition_of_key(b"", 1) == 0
