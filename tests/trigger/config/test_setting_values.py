import pytest

from tailrace.trigger.config.setting_values import (
    Reader,
    ValueRefusedError,
    addresses,
    backoff,
    choice,
    duration_text,
    group_name,
    parse_duration,
    seconds,
    shown,
    size,
    some_text,
    topic_name,
    trigger_name,
    variables,
    whole,
    yes_or_no,
)
from tailrace.trigger.config.trigger_config import RetryMode, SeekTo


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10s", 10),
        ("1h30m", 5400),
        ("300ms", 0.3),
        ("1.5s", 1.5),
        ("1m0.5s", 60.5),
        ("0", 0),
        ("250us", 0.00025),
        ("2d", 172800),
    ],
)
def test_durations_have_the_units_of_go_and_days(text: str, value: float) -> None:
    assert parse_duration(text) == pytest.approx(value)
    assert seconds()(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["10", "", "s", "10 s", "-1s", "1s2", "ten seconds", "1e3s", True, None, float("nan")])
def test_a_text_without_a_unit_is_no_duration(text: object) -> None:
    with pytest.raises(ValueRefusedError, match='is not a duration with a unit, such as "10s"'):
        seconds()(text)


def test_python_code_may_give_numbers_of_seconds() -> None:
    assert seconds()(0.25) == 0.25
    assert seconds()(3) == 3.0


def test_a_duration_out_of_range_names_the_range() -> None:
    with pytest.raises(ValueRefusedError, match="is not a duration from 100ms to 1h"):
        seconds(0.1, 3600)("2h")


@pytest.mark.parametrize("value", [0.25, 0.002, 1.5, 10, 60, 90, 3600, 5400])
def test_durations_are_shown_as_they_are_read(value: float) -> None:
    assert parse_duration(duration_text(value)) == pytest.approx(value)


def test_whole_numbers_may_be_texts() -> None:
    assert whole(1, 10)("7") == 7
    for value in (0, 11, "x", 1.5, True, None):
        with pytest.raises(ValueRefusedError, match="is not a whole number from 1 to 10"):
            whole(1, 10)(value)


@pytest.mark.parametrize(
    ("text", "value"), [("256Mi", 256 * 1024**2), ("1G", 10**9), ("512 MiB", 512 * 1024**2), (10**8, 10**8)]
)
def test_sizes_have_the_units_of_kubernetes(text: object, value: int) -> None:
    assert size(1024, 2**40)(text) == value


def test_a_size_out_of_range_names_the_range() -> None:
    with pytest.raises(ValueRefusedError, match="is not a size from 32Mi to 1024Gi, such as 256Mi"):
        size(32 * 1024**2, 2**40)("1Mi")


def test_choices_ignore_the_case() -> None:
    assert choice(SeekTo)("Earliest") is SeekTo.EARLIEST
    assert choice(RetryMode)("aside") is RetryMode.ASIDE
    with pytest.raises(ValueRefusedError, match="is not earliest or latest"):
        choice(SeekTo)("begin")


@pytest.mark.parametrize(
    ("read", "value", "sentence"),
    [
        (topic_name, "a/b", "cannot name a topic: it may hold ASCII letters"),
        (topic_name, "", "is not a text, or is empty"),
        (group_name, "x" * 250, "cannot name a consumer group"),
        (trigger_name, "../x", "cannot name a trigger"),
        (trigger_name, 7, "is not a text"),
        (some_text, " ", "is not a text, or is empty"),
        (addresses, "host", "is not HOST:PORT"),
        (addresses, "host:0", "is not HOST:PORT"),
        (addresses, [], "is not a list of addresses"),
        (backoff, "30s..1s", "the second one is shorter"),
        (backoff, "1..2", "one is not a duration"),
        (backoff, 5, "is not the first and the longest pause"),
        (variables, ["A"], "NAME=VALUE: A has no text as value"),
        (variables, {"1A": "x"}, "1A is no name"),
        (variables, "A=1", "is not a list of environment variables"),
        (yes_or_no, "maybe", "is neither true nor false"),
    ],
)
def test_a_wrong_value_ends_its_own_sentence(read: Reader, value: object, sentence: str) -> None:
    with pytest.raises(ValueRefusedError, match=sentence):
        read(value)


def test_addresses_are_a_text_or_a_list() -> None:
    assert addresses("one:9092, [::1]:9093") == ("one:9092", "[::1]:9093")
    assert addresses(["one:9092"]) == ("one:9092",)


def test_a_backoff_is_a_pair_or_a_range() -> None:
    assert backoff((0.1, 30)) == (0.1, 30.0)
    assert backoff("100ms..30s") == (0.1, 30.0)
    assert backoff("2s") == (2.0, 2.0)


def test_variables_are_a_mapping_or_pairs() -> None:
    assert variables({"A": "1"}) == {"A": "1"}
    assert variables(["A=1=2", "B="]) == {"A": "1=2", "B": ""}


def test_yes_and_no_are_words_of_files() -> None:
    assert yes_or_no("True") is True
    assert yes_or_no(False) is False


def test_a_long_or_odd_value_is_shown_on_one_short_line() -> None:
    assert shown("orders") == "orders"
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown("x" * 1000)) < 110
