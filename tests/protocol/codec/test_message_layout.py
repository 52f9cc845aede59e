from message_samples import all_messages, versions_of

from tailrace.protocol.codec.message_layout import FieldLayout, StructLayout, message_layout
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.messages.metadata import MetadataResponse


def names(fields: tuple[FieldLayout, ...]) -> list[str]:
    return [field.name for field in fields]


def struct_in(layout: StructLayout, name: str) -> StructLayout:
    (kind,) = (field.kind for field in layout.fields if field.name == name)
    assert isinstance(kind, StructLayout)
    return kind


def test_a_version_has_its_own_fields() -> None:
    oldest, newest = message_layout(FetchRequest, 4), message_layout(FetchRequest, 17)
    assert names(oldest.fields) == ["replica_id", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "topics"]
    assert names(struct_in(oldest, "topics").fields) == ["topic", "partitions"]
    assert names(struct_in(newest, "topics").fields) == ["topic_id", "partitions"]
    assert (oldest.flexible, newest.flexible) == (False, True)


def test_tagged_fields_are_separate_and_in_the_order_of_their_tags() -> None:
    layout = message_layout(FetchRequest, 17)
    assert names(layout.tagged_fields) == ["cluster_id", "replica_state"]
    assert not set(names(layout.tagged_fields)) & set(names(layout.fields))
    partition = struct_in(struct_in(message_layout(FetchResponse, 12), "responses"), "partitions")
    assert [(field.tag, field.name) for field in partition.tagged_fields] == [
        (0, "diverging_epoch"),
        (1, "current_leader"),
        (2, "snapshot_id"),
    ]


def test_null_is_allowed_from_some_version_on() -> None:
    for version, nullable in ((11, False), (12, True)):
        (name,) = (
            field
            for field in struct_in(message_layout(MetadataResponse, version), "topics").fields
            if field.name == "name"
        )
        assert name.nullable is nullable


def test_the_attributes_are_those_of_the_class_in_every_version() -> None:
    for cls in all_messages():
        for version in versions_of(cls):
            assert [name for name, _ in message_layout(cls, version).attributes] == [field.name for field in cls.FIELDS]
