import json

import pytest
import trio
import trio.testing
from running_workflow import put, registered, running_workflow
from trio.testing import MockClock

from tailrace.cluster.stream_state.replica_report import ReplicaReport, encode_report
from tailrace.controller.administration.trigger_requests import ATTRIBUTE_CHARACTERS_MAX
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import StreamAttribute
from tailrace.controller.triggers.trigger_reports import REPORT_CHARACTERS_MAX
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def attribute(member: str = "replica1", last_heartbeat: str = "2026-01-31T12:00:00Z") -> str:
    return json.dumps(
        {"members": [{"member_id": member, "shards": "0-3", "last_heartbeat": last_heartbeat}], "epoch": 1}
    )


async def test_what_was_written_is_read_with_the_ages_of_its_heartbeats(autojump_clock: MockClock) -> None:
    async with running_workflow() as running:
        await running.create_topic("orders", 12)
        requests = running.host.trigger_requests()
        assert requests.read_stream("orders", None).attributes == ()
        version = await requests.write_stream("orders", "billing", 0, attribute())
        await requests.write_stream("orders", "audit", 0, attribute("other"))
        await trio.sleep(7)
        reading = requests.read_stream("orders", "billing")
        assert reading.shards == 12
        (found,) = reading.attributes
        assert found.attribute == StreamAttribute("orders", "billing", attribute(), version)
        assert found.ages == {"replica1": pytest.approx(7)}
        again = await requests.write_stream(
            "orders", "billing", version, attribute(last_heartbeat="2026-01-31T12:00:01Z")
        )
        assert again > version
        (found,) = requests.read_stream("orders", "billing").attributes
        assert found.ages == {"replica1": pytest.approx(0)}
        assert [each.attribute.group for each in requests.read_stream("orders", None).attributes] == [
            "audit",
            "billing",
        ]


async def test_of_two_writes_with_one_version_exactly_one_succeeds() -> None:
    async with running_workflow() as running:
        await running.create_topic("orders", 1)
        requests = running.host.trigger_requests()
        outcomes: list[int | KafkaError] = []

        async def write(member: str) -> None:
            try:
                outcomes.append(await requests.write_stream("orders", "billing", 0, attribute(member)))
            except KafkaError as error:
                outcomes.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, "replica1")
            nursery.start_soon(write, "replica2")
        (version,) = [each for each in outcomes if isinstance(each, int)]
        (lost,) = [each for each in outcomes if isinstance(each, KafkaError)]
        assert lost.code is ErrorCode.INVALID_UPDATE_VERSION
        assert requests.read_stream("orders", "billing").attributes[0].attribute.version == version


async def test_an_attribute_is_removed_only_in_the_expected_version() -> None:
    async with running_workflow() as running:
        await running.create_topic("orders", 1)
        requests = running.host.trigger_requests()
        version = await requests.write_stream("orders", "billing", 0, attribute())
        with pytest.raises(KafkaError) as caught:
            await requests.write_stream("orders", "billing", version + 1, None)
        assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
        assert await requests.write_stream("orders", "billing", version, None) == 0
        assert requests.read_stream("orders", "billing").attributes == ()
        assert await requests.write_stream("orders", "billing", 0, None) == 0


async def test_the_state_object_is_gone_with_its_topic_and_cannot_be_written() -> None:
    async with running_workflow() as running:
        topic = await running.create_topic("orders", 1)
        requests = running.host.trigger_requests()
        version = await requests.write_stream("orders", "billing", 0, attribute())
        await running.administration.delete_topics([topic.id])
        await running.workflow.writes.wait_until(lambda: not running.workflow.local.topics_with_stream_state)
        for call in (
            lambda: requests.write_stream("orders", "billing", version, attribute()),
            lambda: requests.write_stream("orders", "billing", 0, attribute()),
        ):
            with pytest.raises(KafkaError) as caught:
                await call()
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError, match=r"there is no topic orders$"):
            requests.read_stream("orders", None)


async def test_another_sc_begins_the_ages_at_zero(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.create_topic("orders", 1)
        await running.host.trigger_requests().write_stream("orders", "billing", 0, attribute())
        await trio.sleep(100)
    async with running_workflow(store) as running:
        (found,) = running.host.trigger_requests().read_stream("orders", "billing").attributes
        assert found.ages == {"replica1": pytest.approx(0)}


@pytest.mark.parametrize(
    ("group", "text", "message"),
    [
        ("", attribute(), "the name of the group is empty"),
        ("g", "[]", "the state of group g: the state is not a JSON object"),
        ("g", "x" * (ATTRIBUTE_CHARACTERS_MAX + 1), "the state of group g has 524289 characters"),
    ],
)
async def test_a_wrong_attribute_is_refused(group: str, text: str, message: str) -> None:
    async with running_workflow() as running:
        await running.create_topic("orders", 1)
        with pytest.raises(KafkaError, match=message):
            await running.host.trigger_requests().write_stream("orders", group, 0, text)


REPORT = ReplicaReport(topic="orders", group="billing", replica="replica1")


async def test_reports_are_kept_in_memory(autojump_clock: MockClock) -> None:
    async with running_workflow() as running:
        requests = running.host.trigger_requests()
        await requests.report("bill", "replica1", encode_report(REPORT))
        await trio.testing.wait_all_tasks_blocked()
        (reported,) = running.workflow.triggers().reports.reports_of("bill").values()
        assert reported.report == REPORT
        with pytest.raises(KafkaError, match=r"the report of bill replica1 has 262145 characters"):
            await requests.report("bill", "replica1", "x" * (REPORT_CHARACTERS_MAX + 1))
        with pytest.raises(KafkaError, match=r"the report of bill replica1 cannot be read: "):
            await requests.report("bill", "replica1", "[]")


async def test_members_are_told_how_many_replicas_a_deployed_trigger_has() -> None:
    async with running_workflow() as running:
        await running.create_topic("orders", 12)
        document = {"topic": "orders", "group": "billing", "replicas": 3, "function": {"path": "/f.py", "source": ""}}
        await running.objects.create("trigger", json.dumps({"name": "bill", "spec": document}), 0)
        await running.workflow.writes.wait_until(
            lambda: len(running.workflow.local.triggers["bill"].status.revisions) == 3
        )
        requests = running.host.trigger_requests()
        assert requests.read_stream("orders", "billing").replicas == 3
        assert requests.read_stream("orders", "audit").replicas == 0
