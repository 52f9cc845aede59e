"""What the disks of a simulated cluster have of shelves, whatever runs there."""

from collections.abc import Sequence

from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.error_codes import KafkaError
from tailrace.storage.directory.layout import Kind, ShelfKey, parse_file_name, shelf_directory, shelves_directory

from .files import SimulatedFiles
from .world import DATA_DIRECTORY, World


def is_of_shelf(path: str) -> bool:
    return path.startswith(shelves_directory(DATA_DIRECTORY) + "/")


def below_data(key: ShelfKey) -> str:
    """Returns the path below the data directory of a shelf."""
    return shelf_directory(DATA_DIRECTORY, key).removeprefix(DATA_DIRECTORY + "/")


def shelves_on(world: World, number: int) -> dict[ShelfKey, Sequence[int]]:
    """Returns the shelves that an SPU stores, with their other stores, according to all running SPUs."""
    found: dict[ShelfKey, Sequence[int]] = {}
    for spu, process in world.running_spus().items():
        for duty in process.shelf_keeper.copies.duties:
            if {spu, number} <= set(duty.shelf.stores):
                found[duty.key] = [store for store in duty.shelf.stores if store != number]
    return found


def is_whole_on(files: SimulatedFiles, key: ShelfKey, start: int, end: int) -> bool:
    """Whether this disk has all of a shelf between these offsets, according to the headers."""
    for base, following in sorted((base, following) for base, following, _ in batches_of(files, key)):
        if base <= start < following:
            start = following
    return start >= end


def batches_of(files: SimulatedFiles, key: ShelfKey) -> set[tuple[int, int, int]]:
    """Returns base, end and checksum of each batch that this disk has of a shelf."""
    directory, found = shelf_directory(DATA_DIRECTORY, key), set[tuple[int, int, int]]()
    for name in files.names(directory):
        file = parse_file_name(name)
        if file is not None and file.kind is Kind.LOG:
            try:
                headers = [header for _, header in iterate(files.content(f"{directory}/{name}"))]
            except KafkaError:
                continue
            found |= {(each.base_offset, each.next_offset, each.crc) for each in headers}
    return found
