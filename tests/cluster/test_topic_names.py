"""Tests the rules for names of topics."""

import pytest

from tailrace.cluster.topic_names import TakenNames, check_topic_name
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
    taken = TakenNames(["x", "a_b"])
    taken.add("c.d")
    for name in ("a.b", "c_d"):
        with pytest.raises(KafkaError, match="cannot be told from") as refused:
            taken.check_free(name)
        assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    for name in ("a-b", "ab", "a", "d.c"):
        taken.check_free(name)


def test_a_name_is_taken_once() -> None:
    with pytest.raises(KafkaError) as refused:
        TakenNames(["a_b"]).check_free("a_b")
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
