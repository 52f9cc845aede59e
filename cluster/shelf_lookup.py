"""Where the beginning of a partition's log is, when its old segments are kept by others than its replicas.

A partition may be larger than the disk of any SPU: of a topic that asks for it, what is committed and old is kept on
shelves. A replica's log begins later then, and what lies before is read through from the stores of a shelf.
"""

from tailrace.protocol.ids import SpuId

from .specs import PartitionSpec, Shelf


def earliest_offset(spec: PartitionSpec, log_start: int) -> int:
    """Of the partition, where a replica's log begins at `log_start`."""
    return spec.shelved_from if _are_read(spec, log_start) else log_start


def shelf_of(spec: PartitionSpec, offset: int, log_start: int) -> Shelf | None:
    """The shelf that has an offset which is before the log of the replica."""
    if offset >= log_start or not _are_read(spec, log_start) or offset < spec.shelved_from:
        return None
    return next((shelf for shelf in spec.shelves if shelf.base <= offset < shelf.end), None)


def shelves_before(spec: PartitionSpec, log_start: int) -> tuple[Shelf, ...]:
    """Those with records that are before the log of the replica, in order."""
    if not _are_read(spec, log_start):
        return ()
    return tuple(each for each in spec.shelves if each.base < log_start and spec.shelved_from < each.end > each.base)


def shelved_end(spec: PartitionSpec) -> int:
    """All before it is on shelves, or deleted; 0 where there are none."""
    return spec.shelves[-1].end if spec.shelves else 0


def has_shelf(spec: PartitionSpec, spu: SpuId) -> bool:
    """Whether the SPU keeps one of the partition, or is to get one."""
    return any(spu in shelf.stores or spu in shelf.filling for shelf in spec.shelves)


def _are_read(spec: PartitionSpec, log_start: int) -> bool:
    """Not when everything that is on them has been deleted for good, and the Streaming Controller does not know yet."""
    return bool(spec.shelves) and spec.shelved_from < shelved_end(spec) and log_start <= shelved_end(spec)
