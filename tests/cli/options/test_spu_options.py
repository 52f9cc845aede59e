import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.options.spu_options import named_partition, named_topic


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", ("orders", None)),
        ("orders:0", ("orders", [0])),
        ("orders:0,12,3", ("orders", [0, 12, 3])),
        ("orders/7", ("orders", [7])),
    ],
)
def test_a_topic_is_named_with_its_partitions(text: str, expected: tuple[str, list[int] | None]) -> None:
    assert named_topic(text) == expected


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:a", "orders:0,", "orders:-1", "a:b:0"])
def test_what_names_no_topic(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--topic .*: expected TOPIC, or TOPIC:0,1"):
        named_topic(text, "--topic ")


def test_one_partition_is_named() -> None:
    assert named_partition("orders") == ("orders", None)
    assert named_partition("orders/7") == ("orders", 7)
    with pytest.raises(UsageError, match=r"^orders/x: expected TOPIC or TOPIC/PARTITION$"):
        named_partition("orders/x")
