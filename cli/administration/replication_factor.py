"""Changes the replication factor of topics, through the SC or any broker, and waits until the new replicas are live."""

from collections.abc import Collection, Sequence

from tailrace.cli.options.sc_options import say
from tailrace.client.admin_client import AdminClient
from tailrace.client.server_connection import RefusedError

from .factor_plan import PlacedTopic, plan_factor
from .replica_moves import MoveResult, move_replicas

COMMAND = "topic alter"


async def change_factor(
    admin: AdminClient, names: Sequence[str] | None, factor: int, ignoring_racks: Collection[str] = ()
) -> None:
    """Gives each partition of the topics `factor` replicas, and says on standard error what was done.

    None stands for all topics, internal ones included. Raises RefusedError and StoppedError.
    """
    described = await admin.topics()
    topics = [
        PlacedTopic(each.name or "", {one.partition_index: one.replica_nodes for one in each.partitions})
        for each in described
    ]
    wanted = {topic.name for topic in topics} if names is None else set(names)
    racks = {each.node_id: each.rack for each in (await admin.cluster()).brokers}
    rows = plan_factor(topics, wanted, factor, racks, ignoring_racks)
    if not rows:
        say(COMMAND, f"every partition has {_replicas(factor)} already")
        return
    result = await move_replicas(admin, rows, doing="copying partitions")
    if result.refused:
        partition, why = next(iter(result.refused.items()))
        others = f", and {len(result.refused) - 1} others" if len(result.refused) > 1 else ""
        raise RefusedError(f"{_done(result, factor)}, but not {partition}{others}: {why}")
    say(COMMAND, _done(result, factor))


def _done(result: MoveResult, factor: int) -> str:
    return f"{_partitions(len(result.moved))} {_replicas(factor)} now"


def _partitions(count: int) -> str:
    return "1 partition has" if count == 1 else f"{count} partitions have"


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
