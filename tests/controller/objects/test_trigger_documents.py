from typing import Any

import pytest

from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import parse_object, read_document
from tailrace.controller.objects.objects import FunctionSnapshot, StreamAttribute, Trigger, TriggerSpec


def test_an_attribute_belongs_to_a_topic_and_a_group() -> None:
    document = {"topic": "orders", "group": "a/b", "spec": {"attribute": "{}"}}
    assert read_document("stream-state", document) == StreamAttribute("orders", "a/b", "{}")
    with pytest.raises(FieldError, match=r"^topic: 'a/b' cannot name a topic$"):
        read_document("stream-state", {**document, "topic": "a/b"})


FUNCTION = {"path": "/billing.py", "source": "def handler(context, event): ..."}


def trigger(**fields: Any) -> dict[str, Any]:
    return {"name": "bill", "spec": {"topic": "orders", "group": "billing", "function": FUNCTION, **fields}}


def test_what_a_person_leaves_out_has_defaults() -> None:
    assert parse_object("trigger", trigger()) == Trigger(
        "bill", TriggerSpec("orders", "billing", FunctionSnapshot(FUNCTION["path"], FUNCTION["source"]))
    )


def test_reports_of_replicas_are_listed_with_a_trigger_and_are_no_part_of_it() -> None:
    document = trigger() | {"status": {"resolution": "Running", "revisions": [1], "replicas": [{"name": "replica1"}]}}
    found = parse_object("trigger", document)
    assert isinstance(found, Trigger)
    assert found.status.revisions == (1,)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"topic": "a b"}, "topic: 'a b' "),
        ({"group": ""}, "group: it is empty"),
        ({"replicas": 0}, "replicas: 0 is not a whole number from 1 to 100"),
        ({"replicas": 2, "minReplicas": 3}, "minReplicas: 3 is more than replicas, 2"),
        ({"minReplicas": 0}, "minReplicas: 0 is not a whole number from 1 to 100"),
        ({"config": []}, "config: a list is not a mapping of names"),
        ({"metrics": "nowhere"}, "metrics: 'nowhere' is not HOST:PORT"),
        ({"metrics": "localhost:65535", "replicas": 2}, "metrics: localhost:65535 leaves no ports for 2 replicas"),
        ({"function": {"path": "x"}}, "function.source: it is missing"),
        ({"function": {"path": "x", "source": "x" * 262_145}}, "function.source: it has 262145 characters"),
        ({"workers": 1}, "spec: unknown field 'workers'"),
    ],
)
def test_a_fault_names_its_field(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse_object("trigger", trigger(**fields))
    assert fault.removeprefix("spec: ") in str(caught.value)


@pytest.mark.parametrize("name", ["", ".hidden", "..", "a/b", "a b", "x" * 101])
def test_a_name_can_be_a_part_of_a_path(name: str) -> None:
    with pytest.raises(FieldError, match=r"cannot name a trigger"):
        parse_object("trigger", {**trigger(), "name": name})
