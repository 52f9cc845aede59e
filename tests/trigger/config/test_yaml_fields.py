import pytest

from tailrace.trigger.config.setting_values import whole
from tailrace.trigger.config.trigger_settings import Given, TriggerConfigError
from tailrace.trigger.config.yaml_fields import Collected, Field, as_text
from tailrace.trigger.config.yaml_lines import read_yaml


def _collected(text: str, *known: str) -> tuple[Collected, dict[str, Field]]:
    file = Collected("f.yaml")
    return file, file.fields(read_yaml(text, "f.yaml"), "f.yaml", known)


def test_fields_are_found_by_their_names_in_lower_case() -> None:
    _, found = _collected("maxWorkers: 2\nseekTo: latest", "maxworkers", "seekto")
    assert found["maxworkers"].place == "f.yaml: line 1: maxWorkers"
    assert found["seekto"].value.content == "latest"


def test_an_empty_structure_has_no_fields() -> None:
    file, found = _collected("attributes:", "attributes")
    assert file.fields(found["attributes"].value, "x", ()) == {}


def test_numbers_become_texts_so_that_a_duration_needs_its_unit() -> None:
    file, found = _collected("a: 5\nb: [x, 1]\nc:", "a", "b", "c")
    file.settings(found, {"a": "session_timeout", "b": "brokers", "c": "topic"})
    assert file.layer == {
        "session_timeout": Given("5", "f.yaml: line 1: a"),
        "brokers": Given(["x", 1], "f.yaml: line 2: b"),
    }


def test_two_fields_of_one_setting_must_agree() -> None:
    file, found = _collected("a: 5\nb: 5", "a", "b")
    file.settings(found, {"a": "max_workers", "b": "max_workers"})
    file, found = _collected("a: 5\nb: 6", "a", "b")
    with pytest.raises(TriggerConfigError, match=r"^f.yaml: line 2: b contradicts a in line 1$"):
        file.settings(found, {"a": "max_workers", "b": "max_workers"})


def test_a_wrong_value_names_its_field() -> None:
    file, found = _collected("a: x\nb: 5", "a", "b")
    with pytest.raises(TriggerConfigError, match=r"^f.yaml: line 1: a: x is not a whole number from 1 to 2$"):
        file.refusing(found["a"], whole(1, 2))
    with pytest.raises(TriggerConfigError, match=r"^f.yaml: line 1: a must be a list$"):
        list(file.items(found["a"]))
    with pytest.raises(TriggerConfigError, match=r"^f.yaml: line 2: b: 5 is not a text, or is empty$"):
        file.text(found["b"])


def test_ignored_fields_are_warned_about() -> None:
    file, found = _collected("a: 1\nb: {enable: true}", "a", "b")
    file.warn_without_effect(found, {"a"})
    assert file.warnings == ["f.yaml: line 1: a has no effect in Tailrace"]
    assert file.is_enabled(file.fields(found["b"].value, "b", {"enable"}))
    assert not file.is_enabled({})


def test_scalars_are_shown_as_files_have_them() -> None:
    assert [as_text(each) for each in (True, 5, 0.5, "x")] == ["true", "5", "0.5", "x"]
