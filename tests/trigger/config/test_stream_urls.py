import pytest

from tailrace.trigger.config.setting_values import ValueRefusedError
from tailrace.trigger.config.stream_urls import StreamUrl, read_stream_url, topic_of_path


def test_the_url_of_the_seed_names_the_topic_and_the_group() -> None:
    url = "http://v3io-webapi:8081/bigdata/my-stream@my-consumer-group"
    assert read_stream_url(url) == StreamUrl("my-stream", "my-consumer-group")
    assert read_stream_url(f" {url}") == read_stream_url(url), "the seed has a space before it"


def test_a_stream_in_directories_has_dots_in_its_topic() -> None:
    assert read_stream_url("https://some.address:8080/users/a/b/clicks/@cg0") == StreamUrl("a.b.clicks", "cg0")
    assert topic_of_path("/a/b") == "a.b"


def test_a_kafka_url_names_brokers_topic_and_group() -> None:
    assert read_stream_url("kafka://host:9005/topic@group") == StreamUrl("topic", "group", ("host:9005",))
    assert read_stream_url("kafka://one:9092,[::1]:9093/orders") == StreamUrl(
        "orders", None, ("one:9092", "[::1]:9093")
    )


def test_a_broker_alone_is_what_kafka_triggers_of_nuclio_have() -> None:
    assert read_stream_url("10.0.0.2:9092") == StreamUrl(None, None, ("10.0.0.2:9092",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "http://v3io-webapi:8081/my-stream@group",
        "kafka://host:9005/",
        "ftp://a/b/c@d",
        None,
        5,
        "kafka://h:1/a/b@c",
    ],
)
def test_another_text_is_refused_with_both_forms(text: object) -> None:
    with pytest.raises(ValueRefusedError, match="expected http://v3io-webapi:8081/CONTAINER/STREAM@GROUP or kafka://"):
        read_stream_url(text)


@pytest.mark.parametrize(
    "text", ["kafka://host:0/orders@g", "kafka://host/orders@g", "http://h/c/a$b@g", "kafka://h:1/..@g"]
)
def test_a_wrong_part_is_named(text: str) -> None:
    with pytest.raises(ValueRefusedError, match=r"HOST:PORT|cannot name a topic"):
        read_stream_url(text)


def test_a_path_must_be_a_text() -> None:
    with pytest.raises(ValueRefusedError, match="is not the path of a stream"):
        topic_of_path(5)
