"""A reader of the model that needs no leader: it asks stores at different moments, and nobody whether it may.

It draws from a chance of its own, so that the same happens whether it reads or not.
"""

import random
from collections import Counter
from typing import TYPE_CHECKING

from replication_store import Content, Store, check, content_of

from tailrace.broker.replication.entries import EntryKind
from tailrace.broker.replication.policy import LivePolicy
from tailrace.broker.replication.quorum_read import Membership, QuorumRead, StoreAnswer, quorum_read
from tailrace.protocol.ids import SpuId

if TYPE_CHECKING:
    from replication_model import Cluster, Spec

WITH_RECORDS = (EntryKind.EVENT, EntryKind.COMPACTED)


class QuorumReader:
    def __init__(self, seed: int, cluster: "Cluster") -> None:
        self.counts: Counter[str] = Counter()
        """What it came to, for who wonders whether it saw anything."""
        self._random = random.Random(f"reader {seed}")
        self._cluster = cluster
        self._position = 0
        self._answers: dict[SpuId, StoreAnswer] = {}
        self._read: dict[int, Content] = {}
        """The entries that it took for acknowledged, by offset."""
        self._begin()

    def step(self) -> None:
        if self._random.random() < 0.6:
            self._ask(self._random.choice(list(self._cluster.stores.values())))
        if self._answers and self._random.random() < 0.25:
            found = quorum_read(self._position, self._answers.values(), self._live)
            if found is not None:
                self._take(found)
            self._begin()

    def check_final(self) -> None:
        """Checks that everything that it read is committed in the end."""
        truth = self._cluster.truth
        for content in self._read.values():
            check(
                truth.is_gone(content) or content in truth.committed, "somebody read what is not committed in the end"
            )

    def _begin(self) -> None:
        cluster = self._cluster
        self._answers.clear()
        self._live = set(cluster.spec.live) if isinstance(cluster.policy, LivePolicy) else None
        truth = cluster.truth
        self._acknowledged_end = max((each.end for each in truth.acknowledged), default=0)
        if self._random.random() < 0.1:
            self._position = 0

    def _ask(self, store: Store) -> None:
        """Which bytes it has room for, it says itself."""
        spec = self._cluster.spec if self._random.random() < 0.2 else self._cluster.known.get(store.spu)
        if not store.is_up or spec is None:
            return
        log = store.log
        log_end = max(_synced_end(store), store.high_watermark.value) if self._cluster.world.syncs else log.log_end
        entries = list(log.entries(max(self._position, log.log_start), log_end))
        count = self._random.choice((1, 3, len(entries), len(entries)))
        self._answers[store.spu] = StoreAnswer(
            store.spu,
            self._membership(spec),
            store.promise.epoch,
            store.doubt,
            store.high_watermark.value,
            log.log_start,
            log_end,
            log_end if count >= len(entries) else entries[count - 1].end,
            tuple(entries[:count]),
        )

    def _membership(self, spec: "Spec") -> Membership:
        policy = self._cluster.policy_of(spec)
        minimum = policy.replicas_min
        replicas = frozenset(spec.layout.replicas)
        return Membership(spec.epoch, spec.version, bool(spec.leader), replicas, frozenset(spec.live), minimum, policy)

    def _take(self, found: QuorumRead) -> None:
        cluster, truth = self._cluster, self._cluster.truth
        self.counts["reads"] += 1
        known = max(each.high_watermark for each in self._answers.values())
        self.counts["proven"] += found.end > max(known, found.start)
        self.counts["undecided"] += found.may_end > found.end
        if cluster.moves is None:
            check(found.may_end >= self._acknowledged_end, "a reader was not told of something that is acknowledged")
        for each in found.entries:
            content = content_of(each.entry)
            check(self._read.setdefault(each.entry.base, content) == content, "somebody read two at one offset")
            truth.check_may_be_read(content)
        missing = [
            content
            for content in truth.committed
            if found.start <= content[0]
            and content[1] <= found.end
            and content[2] in WITH_RECORDS
            and content[0] not in {each.entry.base for each in found.entries}
        ]
        check(all(truth.is_gone(content) for content in missing), "a reader passed over something that is committed")
        self._position = found.end


def _synced_end(store: Store) -> int:
    synced, end = {content_of(entry) for entry in store.synced}, store.log.log_start
    for entry in store.log.all:
        if content_of(entry) not in synced:
            return end
        end = entry.end
    return end
