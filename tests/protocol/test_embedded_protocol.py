import pytest

from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.embedded_protocol import read_assignment, read_subscription, read_topics
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition


def metadata(version: int, written_as: int | None = None) -> bytes:
    message = ConsumerProtocolSubscription(["a", "b"], None, [TopicPartition("a", [0, 2])], 7, "rack")
    return (version if written_as is None else written_as).to_bytes(2, "big") + encode_whole(message, version)


@pytest.mark.parametrize("version", range(4))
def test_each_version_says_what_it_can(version: int) -> None:
    subscription = read_subscription(metadata(version))
    assert subscription.topics == {"a", "b"}
    assert [(owned.topic, owned.partitions) for owned in subscription.owned] == (
        [("a", [0, 2])] if version >= 1 else []
    )
    assert subscription.rack_id == ("rack" if version >= 3 else None)


def test_a_newer_version_begins_like_the_newest_that_is_known() -> None:
    assert read_subscription(metadata(3, written_as=9) + b"more") == read_subscription(metadata(3))


@pytest.mark.parametrize("bad", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\5", metadata(3)[:-3]])
def test_what_is_none_is_refused(bad: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_subscription(bad)


@pytest.mark.parametrize("version", range(4))
def test_topics_come_first_in_each_version(version: int) -> None:
    assert read_topics(metadata(version)) == {"a", "b"}
    assert read_topics(metadata(0, written_as=version)) == {"a", "b"}, "what its version has besides is missing"


@pytest.mark.parametrize("bad", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\5"])
def test_topics_of_nothing_that_could_be_read(bad: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_topics(bad)


def test_a_member_without_an_assignment_has_nothing() -> None:
    assert read_assignment(b"").assigned_partitions == []
