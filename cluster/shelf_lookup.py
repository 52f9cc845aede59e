"""Finds the shelf of an offset, and the first offset of a partition with shelves.

Shelves let a partition be larger than the disk of any SPU: its old, committed records are on shelves, and the logs of
its replicas begin later. The earlier records are read from the stores of a shelf.
"""

from tailrace.protocol.ids import SpuId

from .specs import PartitionSpec, Shelf


def earliest_offset(spec: PartitionSpec, log_start: int) -> int:
    """Returns the first offset of a partition with a replica whose log begins at `log_start`."""
    return spec.shelved_from if _are_read(spec, log_start) else log_start


def shelf_of(spec: PartitionSpec, offset: int, log_start: int) -> Shelf | None:
    """Returns the shelf with an offset before a replica's log start; None if no shelf has it."""
    if offset >= log_start or not _are_read(spec, log_start) or offset < spec.shelved_from:
        return None
    return next((shelf for shelf in spec.shelves if shelf.base <= offset < shelf.end), None)


def shelves_before(spec: PartitionSpec, log_start: int) -> tuple[Shelf, ...]:
    """Returns the shelves that have records before a replica's log start, in order."""
    if not _are_read(spec, log_start):
        return ()
    return tuple(each for each in spec.shelves if each.base < log_start and spec.shelved_from < each.end > each.base)


def shelved_end(spec: PartitionSpec) -> int:
    """Returns the offset before which all records are on shelves or deleted; 0 if there are no shelves."""
    return spec.shelves[-1].end if spec.shelves else 0


def has_shelf(spec: PartitionSpec, spu: SpuId) -> bool:
    """Whether the SPU stores a shelf of the partition, or is filling one."""
    return any(spu in shelf.stores or spu in shelf.filling for shelf in spec.shelves)


def _are_read(spec: PartitionSpec, log_start: int) -> bool:
    """Whether the shelves have records that a client may read.

    They have none if all of it has been deleted for good, which the Streaming Controller may not know yet.
    """
    return bool(spec.shelves) and spec.shelved_from < shelved_end(spec) and log_start <= shelved_end(spec)
