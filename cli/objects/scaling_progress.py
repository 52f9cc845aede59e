"""The progress of scaling an SPU group: which SPUs still have to start or leave, and which cannot leave, and why."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tailrace.controller.objects.objects import Partition, Spu, SpuGroup, Topic, keepers_of
from tailrace.protocol.ids import SpuId

TOPICS_SHOWN_MAX = 3


class LeavingSpu(Struct, frozen=True):
    """An SPU that its group no longer wants. It leaves when it holds nothing."""

    id: SpuId
    held: int
    """How many partitions have a replica or a shelf on it."""
    unmovable: Mapping[str, int]
    """The topics whose replicas have no other SPU to move to, with the number of SPUs that each needs."""


class ScalingProgress(Struct, frozen=True):
    """How far a group is."""

    group: str
    remaining: int
    """The number of SPUs in the cluster that may hold replicas when the others have left."""
    starting: tuple[SpuId, ...]
    """The SPUs of the group that are not online yet."""
    leaving: tuple[LeavingSpu, ...]

    @property
    def is_done(self) -> bool:
        return not self.starting and not self.leaving

    @property
    def held(self) -> int:
        """How many replicas and shelves still have to move."""
        return sum(each.held for each in self.leaving)

    @property
    def is_stuck(self) -> bool:
        """Whether nothing more will happen until a person changes something."""
        return (
            not self.starting
            and any(each.held for each in self.leaving)
            and all(each.unmovable for each in self.leaving if each.held)
        )


def progress_of(
    group: SpuGroup, spus: Sequence[Spu], topics: Sequence[Topic], partitions: Sequence[Partition]
) -> ScalingProgress:
    """Returns how far the group is from its spec."""
    wanted = range(group.spec.min_id, group.spec.min_id + group.spec.replicas)
    members = [spu for spu in spus if spu.spec.group == group.name]
    leaving = [spu for spu in members if spu.spec.id not in wanted]
    online = {spu.spec.id for spu in members if spu.is_online}
    gone = {spu.spec.id for spu in leaving}
    remaining = sum(spu.is_online and spu.spec.id not in gone for spu in spus)
    needs = {topic.name: topic for topic in topics}
    return ScalingProgress(
        group.name,
        remaining,
        tuple(SpuId(spu) for spu in wanted if spu not in online),
        tuple(_leaving(spu.spec.id, partitions, needs, remaining) for spu in leaving),
    )


def _leaving(spu: SpuId, partitions: Sequence[Partition], topics: Mapping[str, Topic], remaining: int) -> LeavingSpu:
    held = [each for each in partitions if spu in keepers_of(each)]
    unmovable: dict[str, int] = {}
    for each in held:
        count = _replicas_wanted(each, topics.get(each.topic))
        if spu in each.spec.replicas and count > remaining:
            unmovable[each.topic] = max(count, unmovable.get(each.topic, 0))
    return LeavingSpu(spu, len(held), unmovable)


def _replicas_wanted(partition: Partition, topic: Topic | None) -> int:
    row = () if topic is None else topic.status.replica_map.get(partition.number, ())
    return len(row) or len(partition.spec.copy_set)


def sentences(progress: ScalingProgress) -> list[str]:
    """Says which SPUs stay for now, and why."""
    return [_sentence(each, progress) for each in progress.leaving if each.held]


def _sentence(spu: LeavingSpu, progress: ScalingProgress) -> str:
    holds = "1 replica" if spu.held == 1 else f"{spu.held} replicas"
    if not spu.unmovable:
        return f"SPU {spu.id} leaves when its {holds} have moved to other SPUs"
    topics = sorted(spu.unmovable)
    shown = ", ".join(topics[:TOPICS_SHOWN_MAX])
    shown += f" and {len(topics) - TOPICS_SHOWN_MAX} more" if len(topics) > TOPICS_SHOWN_MAX else ""
    need = max(spu.unmovable.values())
    return (
        f"SPU {spu.id} stays, because it holds {holds}: {shown} {'needs' if len(topics) == 1 else 'need'} {need} SPUs, "
        f"and {progress.remaining} would be online; keep {need}, or run `tailrace topic alter "
        f"{' '.join(topics[:TOPICS_SHOWN_MAX])} --replication-factor {max(progress.remaining, 1)}`"
    )
