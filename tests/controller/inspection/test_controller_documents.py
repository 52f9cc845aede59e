from running_workflow import put, registered, running_workflow

from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.inspection.controller_documents import ControllerRow, controller_document
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.workflow.metadata_dispatcher import DecisionCounts


def test_a_controller_is_called_as_what_it_decides_about_and_is_all_status() -> None:
    assert controller_document(ControllerRow("topic", 2, 7, 3)) == {
        "kind": "controller",
        "name": "topic",
        "status": {"objects": 2, "events": 7, "actions": 3},
    }


async def test_each_controller_counts_what_it_was_asked_and_has_decided() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2))
    async with running_workflow(store) as running:
        before = {row.decides_about: row for row in running.host.controllers()}
        assert (before["spu"].objects, before["topic"].objects, before["partition"].objects) == (2, 0, 0)
        await running.connect(1, 2)
        (topic,) = await running.administration.create_topics([NewTopic("t", 3, 2)])
        assert isinstance(topic, TopicSpec)
        after = {row.decides_about: row for row in running.host.controllers()}
        assert (after["topic"].objects, after["partition"].objects) == (1, 3)
        assert after["topic"].actions > before["topic"].actions
        assert after["partition"].actions > before["partition"].actions
        assert after["spu-group"].actions == before["spu-group"].actions
        await running.administration.delete_topics([topic.id])
        assert {row.decides_about: row.objects for row in running.host.controllers()}["partition"] == 0


def test_counts_are_those_of_the_decisions() -> None:
    decisions = DecisionCounts()
    assert decisions.of(iter(())) == []
    assert (decisions.events, decisions.actions) == (1, 0)
