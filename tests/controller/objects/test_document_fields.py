from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.controller.objects.document_fields import FieldError, Fields, shown, size_text


class Colour(StrEnum):
    NONE = ""
    RED = "Red"
    BLUE = "Blue"


def _fault(ask: object) -> str:
    with pytest.raises(FieldError) as caught:
        assert callable(ask)
        ask()
    return str(caught.value)


def test_a_document_is_a_mapping() -> None:
    assert _fault(lambda: Fields([1])) == "the document: a list is not a mapping of fields"
    assert _fault(lambda: Fields(None, "a.b")) == "a.b: None is not a mapping of fields"


def test_the_path_of_a_field_is_named() -> None:
    fields = Fields({"a": {"b": [{"c": 1}, {"c": -1}]}})
    rows = fields.fields("a").each("b")
    assert rows is not None
    assert rows[0].number("c") == 1
    assert _fault(lambda: rows[1].number("c")) == "a.b[1].c: -1 is not a whole number from 0 to 2147483647"


@pytest.mark.parametrize("value", [-1, 65536, 1.0, "9005", True, [], {}, 10**400])
def test_numbers_outside_their_range_are_refused(value: object) -> None:
    fault = _fault(lambda: Fields({"port": value}).number("port", 0, 65535, noun="a port"))
    assert fault == f"port: {shown(value)} is not a port from 0 to 65535"


def test_null_is_not_given() -> None:
    fields = Fields({"a": None, "b": None, "c": None, "d": None, "e": None, "f": None, "g": None})
    assert fields.number("a", default=5) == 5
    assert fields.text("b", "x") == "x"
    assert fields.choice("c", Colour, Colour.RED) is Colour.RED
    assert fields.flag("d", True) is True
    assert fields.size("e", 7) == 7
    assert fields.texts("f") == {}
    assert fields.each("g") is None
    fields.end()


def test_missing_required_fields_are_refused() -> None:
    assert _fault(lambda: Fields({}).number("a")) == "a: it is missing"
    assert _fault(lambda: Fields({"a": None}).text("a")) == "a: it is missing"


def test_a_default_fills_what_is_not_given() -> None:
    fields = Fields({"name": "x"})
    fields.default("name", "y")
    fields.default("rack", "z")
    assert (fields.text("name"), fields.text("rack")) == ("x", "z")


def test_an_unknown_field_is_refused_with_the_one_that_was_meant() -> None:
    fields = Fields({"replica": 3}, "spec")
    fields.number("replicas", default=1)
    assert _fault(fields.end) == "spec: unknown field 'replica'; did you mean 'replicas'?"
    fields = Fields({"owner": 3})
    fields.number("replicas", default=1)
    fields.number("minId", default=1)
    assert _fault(fields.end) == "unknown field 'owner'; there are minId, replicas"
    fields = Fields({5: 3})
    fields.number("replicas", default=1)
    assert _fault(fields.end) == "unknown field 5; there are replicas"


def test_text_is_unicode_and_quoted() -> None:
    assert Fields({"rack": "Zone1 ü"}).text("rack") == "Zone1 ü"
    assert _fault(lambda: Fields({"rack": 1}).text("rack")) == "rack: 1 is not a text; quotes make it one"
    assert _fault(lambda: Fields({"rack": "\ud800"}).text("rack")) == r"rack: '\ud800' is not Unicode"


def test_choices_do_not_depend_on_capitals() -> None:
    assert Fields({"c": "rED"}).choice("c", Colour, Colour.NONE) is Colour.RED
    assert Fields({"c": ""}).choice("c", Colour, Colour.RED) is Colour.NONE
    assert Fields({"c": "azure"}).choice("c", Colour, Colour.RED, also={"Azure": Colour.BLUE}) is Colour.BLUE
    for value in ("green", 1, ["Red"]):
        assert _fault(lambda value=value: Fields({"c": value}).choice("c", Colour, Colour.RED)) == (
            f"c: {shown(value)} is not one of Red, Blue"
        )


def test_flags_are_true_or_false() -> None:
    assert Fields({"f": False}).flag("f", True) is False
    assert _fault(lambda: Fields({"f": 1}).flag("f", True)) == "f: 1 is neither true nor false"


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (1, 1),
        ("1", 1),
        ("2Gi", 2 * 1024**3),
        ("2GiB", 2 * 1024**3),
        ("2 Gi", 2 * 1024**3),
        ("500M", 500 * 10**6),
        ("500MB", 500 * 10**6),
        ("3k", 3000),
        ("3Ki", 3072),
        ("100B", 100),
        ("1Pi", 1024**5),
        (2**63 - 1, 2**63 - 1),
        ("unlimited", None),
    ],
)
def test_sizes(value: object, count: int | None) -> None:
    assert Fields({"size": value}).size("size", 5) == count


@pytest.mark.parametrize(
    "value", [0, -1, "0", "", "Gi", "2 gigabytes", "1.5Gi", 1.5, True, "-2Gi", "9223372036854775808", "10000Pi", [1]]
)
def test_invalid_sizes_are_refused(value: object) -> None:
    assert _fault(lambda: Fields({"size": value}).size("size", 5)) == (
        f"size: {shown(value)} is not a size: a number of bytes from 1, such as 2Gi or 500M, or unlimited"
    )


@given(st.none() | st.integers(1, 2**63 - 1) | st.integers(1, 2**33).map(lambda count: count * 1024**2))
def test_a_size_is_written_as_it_is_read(count: int | None) -> None:
    assert Fields({"size": size_text(count)}).size("size", 5) == count


def test_a_size_is_written_in_the_largest_unit() -> None:
    assert [size_text(count) for count in (1024**3, 1536 * 1024, 1000, None)] == ["1Gi", "1536Ki", 1000, "unlimited"]


def test_the_values_of_texts_need_no_quotes() -> None:
    given_texts = {"a": "x", "b": 5, "c": True, "d": 0.5}
    assert Fields({"configs": given_texts}).texts("configs") == {"a": "x", "b": "5", "c": "true", "d": "0.5"}
    assert _fault(lambda: Fields({"configs": {"a": []}}).texts("configs")) == (
        "configs.a: a list is not a text; quotes make it one"
    )
    assert _fault(lambda: Fields({"configs": {5: "x"}}).texts("configs")) == (
        "configs.5: 5 is not a text; quotes make it one"
    )
    assert "mapping of fields" in _fault(lambda: Fields({"configs": "a=b"}).texts("configs"))


def test_a_list_is_a_list() -> None:
    assert _fault(lambda: Fields({"a": {}}).each("a")) == "a: a mapping is not a list"
    assert _fault(lambda: Fields({"a": [5]}).each("a")) == "a[0]: 5 is not a mapping of fields"


@given(st.recursive(st.none() | st.floats() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=3))
def test_whatever_is_shown_stays_on_one_short_line(value: object) -> None:
    text = shown(value)
    assert text.isprintable()
    assert len(text) <= 61
    text.encode()
