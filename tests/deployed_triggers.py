"""Triggers that are deployed to an SC in memory, with reports and members that the test makes up."""

from pathlib import Path

import trio.testing
from public_sc import PublicSc, tailrace

from tailrace.cluster.stream_state.replica_report import ReplicaReport, ReplicaState, ShardReport, encode_report
from tailrace.cluster.stream_state.stream_state import GroupState, StreamMember, encode_group_state

FUNCTION = """
from tailrace.trigger import trigger

@trigger("orders", group="billing", replicas=3)
def bill(context, event):
    pass
"""


def function_file(directory: Path, text: str = FUNCTION) -> str:
    path = directory / "billing.py"
    path.write_text(text)
    return str(path)


async def deploy(sc: PublicSc, directory: Path, *words: str, shards: int = 12) -> None:
    """Creates the topic and deploys the trigger `bill`, with three replicas."""
    await sc.running.create_topic("orders", shards)
    assert await tailrace(sc.network, "trigger", "deploy", function_file(directory), *words) == 0


async def report(
    sc: PublicSc,
    replica: str = "replica1",
    *shards: ShardReport,
    state: ReplicaState = ReplicaState.MEMBER,
    revision: int = 1,
    **more: object,
) -> None:
    found = ReplicaReport(
        topic="orders", group="billing", replica=replica, state=state, revision=revision, shards=shards, **more
    )  # type: ignore[arg-type]
    await sc.running.host.trigger_requests().report("bill", replica, encode_report(found))
    await trio.testing.wait_all_tasks_blocked()


async def own(sc: PublicSc, **members: set[int]) -> None:
    """Writes the members with their shards into the state object."""
    requests = sc.running.host.trigger_requests()
    found = requests.read_stream("orders", "billing").attributes
    state = GroupState(
        tuple(StreamMember(each, frozenset(shards), 0, "process", 10_000) for each, shards in members.items()), 1
    )
    version = found[0].attribute.version if found else 0
    await requests.write_stream("orders", "billing", version, encode_group_state(state))
