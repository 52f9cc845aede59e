import pytest

from tailrace.cli.triggers.trigger_explanation import explanation, shard_explanation
from tailrace.cli.triggers.trigger_facts import ReplicaFacts, ShardFacts, TriggerFacts
from tailrace.cluster.stream_state.replica_report import ReplicaReport, ReplicaState, ShardReport, ShardState
from tailrace.cluster.stream_state.stream_state import StreamMember
from tailrace.controller.objects.objects import (
    FunctionSnapshot,
    Trigger,
    TriggerResolution,
    TriggerSpec,
    TriggerStatus,
)

MEMBER = StreamMember("replica1", frozenset({3}), 0, "process", 10_000)
REPORT = ReplicaReport(topic="orders", group="billing", replica="replica1", state=ReplicaState.MEMBER)


def replica(
    report: ReplicaReport | None = REPORT, *, name: str = "replica1", age: float = 1.0, process: str = "running"
) -> ReplicaFacts:
    return ReplicaFacts(name, 1, process, report, age)


def shard(
    report: ShardReport | None = None,
    *,
    owner: StreamMember | None = MEMBER,
    owner_age: float = 1.0,
    has_leader: bool = True,
) -> ShardFacts:
    return ShardFacts(0, owner, owner_age, report, has_leader, "" if has_leader else "SPU 1 is offline")


def facts(
    *shards: ShardFacts,
    replicas: tuple[ReplicaFacts, ...] = (replica(),),
    resolution: TriggerResolution = TriggerResolution.RUNNING,
    reason: str = "",
    revision: int = 1,
) -> TriggerFacts:
    spec = TriggerSpec("orders", "billing", FunctionSnapshot("/f.py", ""), revision=revision)
    return TriggerFacts(Trigger("bill", spec, TriggerStatus(resolution, reason, (1,))), replicas, shards, 1)


def why(found: TriggerFacts) -> str:
    return " ".join(shard_explanation(found, 0))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (facts(shard(), resolution=TriggerResolution.PAUSED), "The trigger is paused. `tailrace trigger resume bill` "),
        (
            facts(shard(), resolution=TriggerResolution.WAITING, reason="there is no topic orders"),
            "The trigger waits: there is no topic orders. It starts",
        ),
        (facts(shard(), resolution=TriggerResolution.NONE), "The SC has not decided"),
        (facts(shard(), replicas=()), "No replica runs. The SC starts none by itself"),
        (
            facts(shard(), replicas=(replica(None, process="waiting after it ended with status 2: no such file"),)),
            "No replica has reported yet. replica1 has not reported for a while; its process: waiting after "
            "it ended with status 2: no such file.",
        ),
        (
            facts(shard(has_leader=False)),
            "Shard 0 cannot be read, because its partition has no leader: SPU 1 is offline. See `tailrace partition "
            "describe orders/0`.",
        ),
        (
            facts(shard(owner=None)),
            "No replica has shard 0. A replica takes it with its next heartbeat, or as soon as it runs.",
        ),
        (
            facts(shard(owner=None), replicas=(replica(), replica(None, name="replica2", process="starting"))),
            "No replica has shard 0. replica2 has not reported for a while; its process: starting.",
        ),
        (
            facts(shard(owner_age=7.0)),
            "replica1 has shard 0, but has not reported for a while. The last heartbeat of replica1 is 7.0 s old. If "
            "it does not come back, its shards are free when its session timeout of 10 s is over, in 3.0 s.",
        ),
        (
            facts(shard(owner_age=12.0)),
            "replica1 has shard 0, but has not reported for a while. The last heartbeat of replica1 is 12.0 s old, "
            "which is more than its session timeout of 10 s: another replica takes its shards with its next heartbeat.",
        ),
    ],
)
def test_why_a_shard_has_nobody_who_moves_it(found: TriggerFacts, sentence: str) -> None:
    assert why(found).startswith(sentence)


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (ShardReport(shard=0), "replica1 has handled all records of shard 0, and waits for new ones."),
        (
            ShardReport(shard=0, state=ShardState.HANDLING, lag=1, lag_seconds=3),
            "replica1 handles shard 0; 1 record waits, the oldest for 3 s.",
        ),
        (
            ShardReport(shard=0, state=ShardState.HANDLING, lag=1, error="there is no topic invoices"),
            "replica1 handles shard 0, but cannot store what comes of it: there is no topic invoices.",
        ),
        (ShardReport(shard=0, state=ShardState.CLAIMING), "replica1 looks for the offset at which shard 0 goes on."),
        (
            ShardReport(shard=0, state=ShardState.RETRYING, offset=7, attempt=1, error="ValueError: no"),
            "Shard 0 waits: the event at offset 7 has failed in 1 attempt and is handled again after a pause: "
            "ValueError: no.",
        ),
        (
            ShardReport(shard=0, state=ShardState.STOPPED, offset=7, error="ValueError: no"),
            "Shard 0 has stopped: the event at offset 7 has failed for good: ValueError: no. Deploy a function that "
            "handles it, or skip it: `tailrace trigger pause bill`, `tailrace group reset-offsets billing --topic "
            "orders:0 --to-offset 8 --execute`, `tailrace trigger resume bill`.",
        ),
        (
            ShardReport(shard=0, state=ShardState.BLOCKED, open_events=2, oldest_open=5, oldest_open_seconds=61),
            "Shard 0 waits until events are acknowledged: 2 events are open, the oldest at offset 5 for 1 m.",
        ),
        (
            ShardReport(shard=0, state=ShardState.UNREACHABLE, error="NOT_LEADER_OR_FOLLOWER"),
            "replica1 cannot read shard 0: NOT_LEADER_OR_FOLLOWER.",
        ),
        (
            ShardReport(shard=0, state=ShardState.RELEASING),
            "replica1 gives shard 0 to another replica when its running events have ended.",
        ),
    ],
)
def test_what_the_owner_of_a_shard_does(report: ShardReport, sentence: str) -> None:
    assert why(facts(shard(report))) == sentence


def test_a_shard_may_wait_for_workers_and_its_owner_for_the_sc() -> None:
    busy = ReplicaReport(topic="orders", group="billing", replica="replica1", workers=2, busy_workers=2)
    late = why(facts(shard(ShardReport(shard=0, lag=5), owner_age=6.0), replicas=(replica(busy),)))
    assert "replica1 has no free worker (2 workers); more replicas, or max_workers, would help." in late
    assert "The last heartbeat of replica1 is 6.0 s old." in late


def test_a_shard_may_wait_behind_an_open_transaction() -> None:
    assert why(facts(shard(ShardReport(shard=0, held_back=4)))).endswith(
        "4 offsets after them wait for the end of an open transaction: `tailrace transaction explain orders` says "
        "whose it is."
    )


def test_the_whole_trigger_is_explained_by_what_has_trouble() -> None:
    well = shard(ShardReport(shard=0, lag=3))
    assert explanation(facts(well)) == ["The trigger has 1 replica.", "1 shard makes progress; 3 records wait."]
    waiting = ReplicaReport(
        topic="orders", group="billing", replica="replica2", state=ReplicaState.WAITING, reason="all shards have owners"
    )
    told = explanation(facts(well, shard(owner=None), replicas=(replica(), replica(waiting, name="replica2"))))
    assert told[:2] == ["The trigger has 1 replica.", "replica2 has no shards: all shards have owners."]


def test_a_redeployment_says_what_it_waits_for() -> None:
    redeploying = facts(
        resolution=TriggerResolution.REDEPLOYING, reason="waits until replica1 runs revision 2", revision=2
    )
    assert explanation(redeploying)[0] == (
        "The trigger is switching to revision 2: 0 of 1 replica should run it: waits until replica1 runs revision 2."
    )
