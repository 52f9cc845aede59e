"""The documents of the attributes in the state objects of streams."""

from .document_fields import Fields
from .objects import StreamAttribute
from .spu_documents import Document


def stream_attribute_document(attribute: StreamAttribute) -> Document:
    """Returns an attribute of a stream's state object as a document."""
    return {"topic": attribute.topic, "group": attribute.group, "spec": {"attribute": attribute.text}}


def read_stream_attribute(whole: Fields, spec: Fields) -> StreamAttribute:
    """Reads an attribute of a stream's state object. Raises FieldError."""
    topic = whole.text("topic")
    if not topic or "/" in topic:
        raise whole.fault("topic", f"{topic!r:.300} cannot name a topic")
    return StreamAttribute(topic, whole.text("group"), spec.text("attribute"))
