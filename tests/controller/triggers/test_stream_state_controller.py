from controller_model import model, topic

from tailrace.controller.objects.objects import StreamAttribute
from tailrace.controller.state.events import ReconciliationDue


def test_the_state_object_is_removed_with_its_topic() -> None:
    sc = model(1)
    sc.write(topic("orders", number=1))
    sc.write(topic("other", number=2))
    for attribute in (
        StreamAttribute("orders", "a", "{}"),
        StreamAttribute("orders", "b", "{}"),
        StreamAttribute("other", "a", "{}"),
    ):
        sc.write(attribute)
    sc.settle()
    sc.delete_topic("orders")
    sc.settle()
    assert [each.topic for each in sc.kv.all_of(StreamAttribute)] == ["other"]


def test_a_state_object_without_a_topic_is_removed_at_the_second_reconciliation() -> None:
    sc = model(1)
    sc.write(StreamAttribute("orders", "a", "{}"))
    sc.settle()
    sc.deliver(ReconciliationDue())
    sc.settle()
    assert len(sc.kv.all_of(StreamAttribute)) == 1
    sc.deliver(ReconciliationDue())
    sc.settle()
    assert not sc.kv.all_of(StreamAttribute)
