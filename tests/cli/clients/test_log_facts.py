from tailrace.cli.clients.log_facts import Partition, by_topic


def test_requests_name_each_topic_once() -> None:
    partitions = [Partition("b", 1), Partition("a", 3), Partition("b", 0)]
    assert by_topic(partitions) == [("a", [3]), ("b", [0, 1])]
    assert by_topic([]) == []
    assert str(partitions[0]) == "b/1"
