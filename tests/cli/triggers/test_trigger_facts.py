import pytest

from tailrace.cli.triggers.trigger_facts import replica_documents, trigger_facts, trigger_of, without_secrets
from tailrace.client.sc_client import Document
from tailrace.client.server_connection import UnreachableError
from tailrace.cluster.stream_state.replica_report import ReplicaReport, ReplicaState, ShardReport
from tailrace.cluster.stream_state.stream_state import GroupState, StreamMember, StreamRead
from tailrace.controller.objects.trigger_documents import HIDDEN
from tailrace.protocol.internal.describe_partitions import DescribedPartition

MEMBER = StreamMember("replica1", frozenset({0}), 0, "process", 10_000)


def document(*replicas: Document, **config: object) -> Document:
    function = {"path": "/billing.py", "source": "..."}
    spec = {"topic": "orders", "group": "billing", "function": function, "config": config}
    return {"name": "bill", "spec": spec, "status": {"revisions": [1], "replicas": list(replicas)}}


def test_a_shard_has_its_owner_its_report_and_its_leader() -> None:
    report = {"topic": "orders", "group": "billing", "replica": "replica1", "state": "member"}
    report |= {"shards": [{"shard": 0, "marked": 7}]}  # type: ignore[dict-item]
    read = StreamRead(2, 1, GroupState((MEMBER,), 4), 9, {"replica1": 2500})
    led, unled = DescribedPartition("orders", partition=0, leader=1), DescribedPartition("orders", partition=1)
    replica = {"name": "replica1", "revision": 1, "process": "running", "reportAgeMs": 1500, "report": report}
    facts = trigger_facts(document(replica), read, [led, unled])
    assert facts.epoch == 4
    assert facts.members == (MEMBER,)
    first, second = facts.shards
    assert (first.owner, first.owner_age, first.report) == (MEMBER, 2.5, ShardReport(shard=0, marked=7))
    assert (first.has_leader, second.has_leader, second.owner) == (True, False, None)
    found = facts.replica("replica1")
    assert found is not None
    assert found.current == ReplicaReport(
        topic="orders",
        group="billing",
        replica="replica1",
        state=ReplicaState.MEMBER,
        shards=(ShardReport(shard=0, marked=7),),
    )


def test_an_old_report_does_not_count() -> None:
    report = {"topic": "orders", "group": "billing", "replica": "replica1", "shards": [{"shard": 0}]}
    replica = {"name": "replica1", "reportAgeMs": 10_500, "report": report}
    facts = trigger_facts(document(replica), StreamRead(1, 1, GroupState((MEMBER,))), [])
    assert facts.replicas[0].report is not None
    assert facts.replicas[0].current is None
    assert facts.shards[0].report is None


def test_secrets_are_hidden() -> None:
    assert without_secrets(document(access_key="k", max_workers=2))["spec"]["config"] == {
        "access_key": HIDDEN,
        "max_workers": 2,
    }
    assert without_secrets(document(access_key=None))["spec"]["config"] == {"access_key": None}


def test_what_another_version_sends_is_refused() -> None:
    with pytest.raises(UnreachableError, match=r"a trigger that this version cannot read: spec: unknown field 'new'"):
        trigger_of({**document(), "spec": {**document()["spec"], "new": 1}})
    with pytest.raises(UnreachableError, match=r"a report that this version cannot read"):
        trigger_facts(document({"name": "replica1", "report": {"topic": 1}}), StreamRead(0), [])
    assert replica_documents({}) == []
