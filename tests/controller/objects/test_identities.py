from uuid import UUID

from tailrace.controller.objects.identities import new_cluster_id, new_topic_id


def test_ids_look_like_no_option_and_are_none_that_kafka_uses() -> None:
    offered = iter([UUID(int=0), UUID(int=1), UUID(bytes=b"\xf8" + bytes(15)), UUID(int=7 << 64)])
    assert new_topic_id(lambda: next(offered)) == UUID(int=7 << 64)


def test_the_id_of_a_cluster_has_kafkas_form() -> None:
    assert new_cluster_id(lambda: UUID(int=7 << 64)) == "AAAAAAAAAAcAAAAAAAAAAA"
