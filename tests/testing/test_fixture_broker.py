import pytest

from tailrace.testing import Broker, FixtureBroker
from tailrace.testing.fixture_broker import TOPIC_NAME_CHARACTERS_MAX, topic_prefix


@pytest.mark.parametrize(
    ("test", "prefix"),
    [
        ("test_orders", "test_orders-7"),
        ("test_orders[1-Zürich, 2nd floor]", "test_orders-1-Z-rich-2nd-floor-7"),
        ("[]", "-7"),
    ],
)
def test_a_topic_has_the_name_of_its_test_in_characters_that_kafka_allows(test: str, prefix: str) -> None:
    assert topic_prefix(test, 7) == prefix


def test_a_long_name_is_shortened_to_what_kafka_allows() -> None:
    assert len(topic_prefix("t" * 400, 12345)) + len("-9999") == TOPIC_NAME_CHARACTERS_MAX


class _Topics(Broker):
    """A broker that does not run, and remembers which topics it was asked to create."""

    def __init__(self) -> None:
        super().__init__()
        self.created: list[str] = []

    def create_topic(self, name: str, **options: object) -> str:  # type: ignore[override]
        self.created.append(name)
        return name


def test_the_topic_is_created_at_its_first_use_and_stays_the_same() -> None:
    broker = _Topics()
    one = FixtureBroker(broker, "test_one", 1)
    assert not broker.created
    assert one.topic == one.topic == "test_one-1"
    assert one.create_topic(partitions=3) == "test_one-1-2"
    assert FixtureBroker(broker, "test_one", 2).topic == "test_one-2"
    assert broker.created == ["test_one-1", "test_one-1-2", "test_one-2"]
