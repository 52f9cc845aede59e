"""Which names a topic may have."""

import pytest

from tailrace.cluster.topic_names import check_topic_name, collision
from tailrace.protocol.error_codes import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "__own", "...", "a" * 249, "-"])
def test_a_name_that_may_be(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", " ", "a/b", "a b", "ä", "a:b", "a\n", "a\0", "a" * 250, "a/" * 30000])
def test_a_name_that_may_not(name: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_topic_name(name)
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(refused.value.message) < 800


def test_dots_and_underscores_are_the_same_to_metrics() -> None:
    assert collision("a.b", ["x", "a_b"]) == "a_b"
    assert collision("a_b", ["a.b"]) == "a.b"
    assert collision("a.b", ["a.b", "a-b", "ab"]) is None
    assert collision("ab", ["a.b"]) is None
