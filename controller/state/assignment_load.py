"""Counts the replicas that each SPU holds or will hold, for a balanced assignment of new ones.

Rows that were decided count at once, before the store has them. Many topics may be placed before the first one comes
back from the store: otherwise all of them would go to the SPU that had the fewest replicas when the first was placed.
"""

from collections.abc import Iterable

from tailrace.cluster.replica_assignment import Load
from tailrace.controller.objects.objects import ReplicaMap
from tailrace.protocol.ids import SpuId, TopicId


class ReplicaAssignments:
    def __init__(self) -> None:
        self._rows: dict[TopicId, ReplicaMap] = {}
        self._load = Load()

    def put(self, topic_id: TopicId, rows: ReplicaMap) -> None:
        """Replaces the rows of the topic by `rows`."""
        before = self._rows.get(topic_id, {})
        if rows == before:
            return
        self._count((row for number, row in before.items() if rows.get(number) != row), -1)
        self._count((row for number, row in rows.items() if before.get(number) != row), +1)
        self._rows[topic_id] = rows

    def remove(self, topic_id: TopicId) -> None:
        self._count(self._rows.pop(topic_id, {}).values(), -1)

    def replicas_on(self, spu: SpuId) -> int:
        return self._load.replicas[spu]

    def beside(self, topic_id: TopicId) -> Load:
        """Returns the load of all topics but this one."""
        load = Load(self._load.replicas.copy(), self._load.leaders.copy())
        for row in self._rows.get(topic_id, {}).values():
            load.replicas.subtract(row)
            load.leaders[row[0]] -= 1
        return load

    def _count(self, rows: Iterable[tuple[SpuId, ...]], step: int) -> None:
        replicas, leaders = self._load.replicas, self._load.leaders
        for row in rows:
            leaders[row[0]] += step
            for spu in row:
                replicas[spu] += step
