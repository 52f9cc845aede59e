"""Tests the conversion of texts to values and back, and the messages of refusals."""

import pytest

from tailrace.cluster.configs.config_definitions import (
    ConfigDefinition,
    ConfigType,
    Rule,
    Value,
    at_least,
    between,
    by_name,
    one_of,
    parse,
    some_of,
    split_list,
    text_of,
    without_effect,
)
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def config(kind: ConfigType, rule: Rule | None = None, *, sensitive: bool = False) -> ConfigDefinition:
    return ConfigDefinition("a.config", kind, None, "", rule, sensitive=sensitive)


@pytest.mark.parametrize(
    ("kind", "text", "value", "canonical"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True, "true"),
        (ConfigType.BOOLEAN, "false", False, "false"),
        (ConfigType.INT, " 5 ", 5, "5"),
        (ConfigType.INT, "+5", 5, "5"),
        (ConfigType.INT, "-2147483648", -(2**31), "-2147483648"),
        (ConfigType.SHORT, "32767", 32767, "32767"),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1, "9223372036854775807"),
        (ConfigType.DOUBLE, "1e-3", 0.001, "0.001"),
        (ConfigType.DOUBLE, "1", 1.0, "1.0"),
        (ConfigType.DOUBLE, ".5", 0.5, "0.5"),
        (ConfigType.LIST, " b , a,b", ("b", "a"), "b,a"),
        (ConfigType.LIST, "", (), ""),
        (ConfigType.STRING, " as is ", "as is", "as is"),
    ],
)
def test_a_text_is_read_and_written_canonically(kind: ConfigType, text: str, value: Value, canonical: str) -> None:
    found = parse(config(kind), text)
    assert found == value
    assert type(found) is type(value)
    assert text_of(found) == canonical
    assert parse(config(kind), canonical) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.BOOLEAN, ""),
        (ConfigType.INT, "2147483648"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.LONG, "9" * 5000),
        (ConfigType.LONG, "1_000"),
        (ConfigType.LONG, "0x10"),
        (ConfigType.LONG, "٣"),
        (ConfigType.LONG, "1.0"),
        (ConfigType.LONG, ""),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, "inf"),
        (ConfigType.DOUBLE, "."),
        (ConfigType.LIST, "a,,b"),
        (ConfigType.LIST, ","),
    ],
)
def test_a_text_of_another_type_is_refused_in_one_short_sentence(kind: ConfigType, text: str) -> None:
    with pytest.raises(KafkaError, match=r"^INVALID_CONFIG: a\.config: .* is not allowed; it takes ") as refused:
        parse(config(kind), text)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert len(refused.value.message) < 400


@pytest.mark.parametrize(
    ("kind", "rule", "good", "bad", "takes"),
    [
        (ConfigType.INT, at_least(2), "2", "1", "a number of at least 2"),
        (ConfigType.DOUBLE, between(0, 1), "1", "1.1", "a number from 0 to 1"),
        (ConfigType.STRING, one_of("x", "y"), "y", "z", "one of: x, y"),
        (ConfigType.LIST, some_of("x", "y"), "y,x", "x,z", "a comma-separated list of: x, y"),
    ],
)
def test_a_rule_says_what_it_takes(kind: ConfigType, rule: Rule, good: str, bad: str, takes: str) -> None:
    parse(config(kind, rule), good)
    with pytest.raises(KafkaError) as refused:
        parse(config(kind, rule), bad)
    assert refused.value.message == f"a.config: {bad!r} is not allowed; it takes {takes}"


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(KafkaError, match=r"a\.config: a value is missing"):
        parse(config(ConfigType.STRING), None)


def test_a_value_that_no_client_could_be_told_is_refused() -> None:
    longest = "é" * 16_383 + "e"
    assert parse(config(ConfigType.STRING), longest) == longest
    with pytest.raises(KafkaError, match=r"a\.config: the value has 32768 bytes; at most 32767 are allowed"):
        parse(config(ConfigType.STRING), longest + "e")


def test_a_secret_is_not_repeated() -> None:
    with pytest.raises(KafkaError) as refused:
        parse(config(ConfigType.PASSWORD, one_of("x"), sensitive=True), "secret")
    assert "secret" not in refused.value.message


def test_a_list_keeps_the_first_of_equal_entries() -> None:
    assert split_list("b, a, b") == ("b", "a")
    assert split_list("  ") == ()
    assert split_list("a,") is None


def test_a_table_is_sorted_by_name() -> None:
    first, second = (ConfigDefinition(name, ConfigType.INT, 0, "") for name in "ab")
    assert list(by_name([second, first])) == ["a", "b"]


def test_configs_without_effect_are_found_by_their_definition() -> None:
    table = by_name(
        (
            ConfigDefinition("kept", ConfigType.INT, 1, "For tools.", honoured=False),
            ConfigDefinition("used", ConfigType.INT, 1, "Used."),
        )
    )
    assert without_effect(["used", "kept", "unknown"], table) == ["kept"]
