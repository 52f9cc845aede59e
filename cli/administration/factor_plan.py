"""Plans the replicas of all partitions of some topics for another replication factor."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.cluster.replica_assignment import InsufficientResources, Load
from tailrace.cluster.replica_changes import Places, with_factor
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId

Row = tuple[int, ...]
"""The SPUs that should hold a partition, the preferred leader first."""


class PlacedTopic(Struct, frozen=True):
    """A topic, and the SPUs that hold its partitions."""

    name: str
    rows: Mapping[int, Sequence[int]]


def plan_factor(
    topics: Sequence[PlacedTopic],
    names: Collection[str],
    factor: int,
    racks: Mapping[int, str | None],
    ignoring_racks: Collection[str] = (),
) -> dict[Partition, Row]:
    """Returns the new rows of the partitions of the topics in `names` that do not have `factor` replicas yet.

    `topics` are all topics of the cluster, since they decide how much each SPU holds. `racks` are the SPUs that are
    online, each with its rack. `ignoring_racks` are the topics that are placed without regard to racks. Raises
    RefusedError if there are too few SPUs.
    """
    online = frozenset(map(SpuId, racks))
    on_racks = Places({SpuId(spu): rack for spu, rack in racks.items()}, online, online)
    anywhere = Places(dict.fromkeys(online), online, online)
    load = Load()
    for topic in topics:
        load.add(_rows(topic).values())
    planned: dict[Partition, Row] = {}
    for topic in topics:
        if topic.name not in names:
            continue
        rows = _rows(topic)
        for row in rows.values():
            load.replicas.subtract(row)
            load.leaders[row[0]] -= 1
        changed = with_factor(rows, factor, anywhere if topic.name in ignoring_racks else on_racks, load)
        if isinstance(changed, InsufficientResources):
            raise RefusedError(f"{topic.name}: {changed.reason}", ErrorCode.INVALID_REPLICATION_FACTOR)
        planned |= {Partition(topic.name, number): row for number, row in sorted(changed.items())}
    return planned


def _rows(topic: PlacedTopic) -> dict[int, tuple[SpuId, ...]]:
    return {number: tuple(map(SpuId, row)) for number, row in topic.rows.items() if row}
