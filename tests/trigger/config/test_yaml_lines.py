import pytest

from tailrace.trigger.config.yaml_lines import CHARACTERS_MAX, Value, YamlError, read_yaml


def test_values_know_the_lines_of_their_fields() -> None:
    root = read_yaml("a: 1\nb:\n  c: true\n  d:\n  - x\n  - 2.5\ne: null\n", "f.yaml")
    assert root.plain() == {"a": 1, "b": {"c": True, "d": ["x", 2.5]}, "e": None}
    assert isinstance(root.content, dict)
    assert root.content["b"].line == 2
    items = root.content["b"].content["d"].content
    assert [each.line for each in items] == [5, 6]


def test_json_is_read_as_well() -> None:
    root = read_yaml('{"a": {"b": [1,\n "x"]}}', "f.json")
    assert root.plain() == {"a": {"b": [1, "x"]}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\na: 2\n", "f.yaml: line 2: the field 'a' occurs twice"),
        ("a: &x 1\nb: *x\n", "f.yaml: line 2: an alias refers to this value; write it out instead"),
        ("a: [1\nb: 2\n", "f.yaml: line 2: expected ',' or ']', but got ':'"),
        ("", "f.yaml: the file is empty"),
        ("? [a]\n: 1\n", "f.yaml: line 1: the name of a field must be a text"),
        ("a: 1\n---\nb: 2\n", "f.yaml: line 2: but found another document"),
        ("a: \0", "f.yaml: unacceptable character #x0000: special characters are not allowed"),
        ("[" * 2000, "f.yaml: the document is nested too deeply"),
        ("a: !!python/object:os.system x", "f.yaml: line 1: could not determine a constructor"),
        (" " * (CHARACTERS_MAX + 1), f"f.yaml: the file has more than {CHARACTERS_MAX} characters"),
    ],
)
def test_a_wrong_document_is_one_sentence_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml(text, "f.yaml")
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_scalar_is_a_document() -> None:
    assert read_yaml("5", "f") == Value(5, 1)
