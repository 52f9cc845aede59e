"""Tests set, delete, append and subtract, on configs of a resource and on defaults."""

import pytest

from tailrace.cluster.configs.config_changes import (
    Alteration,
    ConfigChange,
    Operation,
    ResourceKind,
    altered,
    named_twice,
)
from tailrace.cluster.configs.config_definitions import ConfigDefinition, Value, parse
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.protocol.error_codes import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = Operation


def change(own: dict[str, str], *changes: tuple[str, int, str | None], replaces_all: bool = False) -> dict[str, str]:
    def effective(definition: ConfigDefinition) -> Value:
        return parse(definition, own[definition.name]) if definition.name in own else definition.default

    alteration = Alteration(
        ResourceKind.TOPIC, "t", tuple(ConfigChange(*each) for each in changes), replaces_all=replaces_all
    )
    return altered(own, alteration, TOPIC_CONFIGS, effective)


def test_set_and_delete() -> None:
    assert change({"retention.ms": "1"}, ("segment.ms", SET, " 5 ")) == {"retention.ms": "1", "segment.ms": "5"}
    assert change({"retention.ms": "1"}, ("retention.ms", DELETE, None)) == {}
    assert change({}, ("retention.ms", DELETE, None), ("no.such.config", DELETE, "")) == {}


def test_append_starts_from_what_applies() -> None:
    assert change({}, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert change({"cleanup.policy": "compact"}, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "compact"}


def test_subtract_may_leave_nothing() -> None:
    assert change({}, ("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": ""}
    assert change({}, ("cleanup.policy", SUBTRACT, "compact")) == {"cleanup.policy": "delete"}


def test_replacing_all_forgets_the_rest() -> None:
    assert change({"retention.ms": "1"}, ("segment.ms", SET, "5"), replaces_all=True) == {"segment.ms": "5"}


def test_replacing_all_leaves_what_cannot_be_altered() -> None:
    own = {"replication.policy": "majority", "retention.ms": "1"}
    assert change(own, ("segment.ms", SET, "5"), replaces_all=True) == {
        "replication.policy": "majority",
        "segment.ms": "5",
    }


def test_what_is_set_is_never_changed_in_place() -> None:
    own = {"retention.ms": "1"}
    change(own, ("retention.ms", SET, "2"))
    assert own == {"retention.ms": "1"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("no.such.config", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "zzz")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_change_that_cannot_be_made(changes: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        change({}, *changes)
    assert refused.value.code == code
    assert changes[0][0] in refused.value.message or "twice" in refused.value.message


def test_resources_that_are_named_twice() -> None:
    assert named_twice([(2, "a"), (4, "a"), (2, "a"), (2, "b")]) == {(2, "a")}


@pytest.mark.parametrize("value", ["1", None])
def test_a_name_of_any_length_makes_a_short_message(value: str | None) -> None:
    with pytest.raises(KafkaError) as refused:
        change({}, ("a" * 32_767, SET, value))
    assert len(refused.value.message) < 300
