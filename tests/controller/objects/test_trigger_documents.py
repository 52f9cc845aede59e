import pytest

from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import read_document
from tailrace.controller.objects.objects import StreamAttribute


def test_an_attribute_belongs_to_a_topic_and_a_group() -> None:
    document = {"topic": "orders", "group": "a/b", "spec": {"attribute": "{}"}}
    assert read_document("stream-state", document) == StreamAttribute("orders", "a/b", "{}")
    with pytest.raises(FieldError, match=r"^topic: 'a/b' cannot name a topic$"):
        read_document("stream-state", {**document, "topic": "a/b"})
