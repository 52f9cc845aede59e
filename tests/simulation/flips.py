"""Flips bits at rest on the disk of one machine at a time, but only in data that another machine has too.

In a sealed segment any bit may flip, because its recorded checksum covers everything. In an open segment, a bit may
flip in what the batches' own checksums cover, as far as it is known to be on the disk. A bit may flip in the batches'
headers only while a process has the segment open, because only that process knows what they were. Bits may also flip in
other files, whose corruption is detected at their next use.
"""

from collections.abc import Collection, Iterator
from random import Random
from uuid import UUID

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.batches.record_batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, iterate
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.directory.layout import (
    MANIFEST,
    Kind,
    clean_shutdown_path,
    file_name,
    high_watermarks_path,
    parse_file_name,
    promises_path,
    replica_of,
    shelf_directory,
    store_path,
)
from tailrace.storage.directory.promises import PROMISES_MAGIC
from tailrace.storage.manifest import manifest

from .files import Flipped, SimulatedFiles
from .shelf_files import batches_of, is_of_shelf, shelves_on
from .world import DATA_DIRECTORY, Machine, World

EPOCH_START = 12
"""The offset of the epoch in a batch, whose length it follows."""
OFFSET_END = 8


def flip_at_rest(world: World, number: int, chance: Random) -> str | None:
    """Flips bits in a file that a running process may read, and returns its path, or None if there is none."""
    files = world.spus[number].files
    logs = [*_repairable_logs(world, number), *_repairable_shelves(world, number)]
    indexes = [
        path for path in files.paths() if path.endswith((Kind.INDEX, Kind.TIME_INDEX)) and files.is_at_rest(path)
    ]
    if logs and (not indexes or chance.random() < 0.8):
        path = chance.choice(logs)
        _flip_in_log(files, path, chance)
    elif indexes:
        path = chance.choice(indexes)
        _flip_anywhere(files, path, chance)
    else:
        return None
    return path


def flip_in_open_header(world: World, number: int, chance: Random) -> str | None:
    """Flips bits in the header of a batch in an open segment that another live replica has too; returns the path, or
    None.

    If the process ends before it has repaired the header, the original comes back, because nothing else knows it.
    """
    files = world.spus[number].files
    found = [
        (path, position)
        for path, end in _open_logs(world, number)
        for position, header in iterate(files.content(path))
        if header.next_offset <= end and position + header.size <= files.end_at_rest(path)
    ]
    if not found:
        return None
    path, position = chance.choice(found)
    within = chance.randrange(HEADER_SIZE)
    files.flip(path, position + within, chance.randrange(8), is_covered=_is_covered(within), is_noted=False)
    return path


def flip_in_lone_end(world: World, number: int, leads: Collection[ReplicaKey], chance: Random) -> str | None:
    """Flips bits in a batch that only its leader has and that is not committed; returns the path, or None.

    For its header, the rules of `flip_in_open_header` apply.
    """
    files, process = world.spus[number].files, world.running_spus().get(number)
    damaged = flipped_logs(world.spus[number])
    found = []
    for replica in process.replicas if process is not None else ():
        facts, path = replica.log.segments()[-1], _open_path(replica)
        can_be_read = facts.size and not replica.offline_reason and path not in damaged
        if replica.key in leads and replica.is_leader and can_be_read:
            found += [
                (path, position, header.size)
                for position, header in iterate(files.content(path))
                if header.base_offset >= replica.high_watermark and position + header.size <= files.end_at_rest(path)
            ]
    if not found:
        return None
    path, position, size = chance.choice(found)
    within = chance.randrange(HEADER_SIZE if chance.random() < 0.3 else size)
    files.flip(
        path, position + within, chance.randrange(8), is_covered=_is_covered(within), is_noted=within >= HEADER_SIZE
    )
    return path


def flip_while_down(world: World, number: int, chance: Random) -> str | None:
    """Flips bits in a file that the SPU reads at its start."""
    files = world.spus[number].files
    small = [path(DATA_DIRECTORY) for path in (clean_shutdown_path, high_watermarks_path, promises_path, store_path)]
    proofs = {f"{path.rpartition('/')[0]}/{MANIFEST}" for path in flipped_logs(world.spus[number])}
    """Manifests that alone can prove what these logs were."""
    small += [path for path in files.paths() if path.endswith((Kind.PRODUCERS, f"/{MANIFEST}")) and path not in proofs]
    found = [path for path in small if files.exists(path) and files.is_at_rest(path) and files.size(path)]
    if not found or chance.random() < 0.5:
        return flip_at_rest(world, number, chance)
    path = chance.choice(found)
    _flip_anywhere(files, path, chance, start=len(PROMISES_MAGIC) if path == promises_path(DATA_DIRECTORY) else 0)
    return path


def flipped_logs(machine: Machine) -> list[str]:
    """Returns the paths of logs with flipped bits."""
    return [path for path in machine.files.flipped() if path.endswith(Kind.LOG)]


def logs_to_repair(world: World, number: int) -> list[str]:
    """Returns the logs with flipped bits, without those of shelves that are no longer stored on this SPU."""
    named = [shelf_directory(DATA_DIRECTORY, key) for key in shelves_on(world, number)]
    flipped = flipped_logs(world.spus[number])
    return [path for path in flipped if not is_of_shelf(path) or path.rpartition("/")[0] in named]


def will_doubt(machine: Machine) -> bool:
    """Whether bits have flipped in what proves that the store is complete, and its SPU has not started since."""
    return not machine.files.flipped().keys().isdisjoint((promises_path(DATA_DIRECTORY), store_path(DATA_DIRECTORY)))


def flipped_bytes(world: World, number: int) -> list[Flipped]:
    """Returns flipped bytes of records that this SPU may send to consumers.

    They are in its own replicas, or in shelves on any SPU, because a leader reads them on behalf of consumers.
    """
    files = [(world.spus[number].files, path) for path in flipped_logs(world.spus[number]) if not is_of_shelf(path)]
    for spu, machine in world.spus.items():
        files += [(machine.files, path) for path in logs_to_repair(world, spu) if is_of_shelf(path)]
    return [each for where, path in files for each in where.flipped()[path]]


def _is_covered(within: int) -> bool:
    """Whether a batch's checksum covers the byte."""
    return not (within < OFFSET_END or EPOCH_START <= within < EPOCH_START + 4)


def _open_path(replica: Replica) -> str:
    return f"{replica.log.directory}/{file_name(replica.log.segments()[-1].base, Kind.LOG)}"


def _flip_in_log(files: SimulatedFiles, path: str, chance: Random) -> None:
    data = files.content(path)
    batches = list(iterate(data))
    position, header = chance.choice(batches)
    directory, _, name = path.rpartition("/")
    file = parse_file_name(name)
    assert file is not None
    is_noted = _is_sealed(_manifest_of(files, directory), file.offset, len(data))
    noted_now = manifest.decode(files.content(f"{directory}/{MANIFEST}")) if is_of_shelf(path) else manifest.Manifest()
    if not (is_noted or _is_sealed(noted_now, file.offset, len(data))):
        within = chance.randrange(HEADER_SIZE, header.size)
    elif chance.random() < 0.5:
        within = chance.randrange(CRC_START)
    else:
        within = chance.randrange(header.batch_length + LOG_OVERHEAD)
    is_noted = is_noted or within >= CRC_START
    files.flip(path, position + within, chance.randrange(8), is_covered=_is_covered(within), is_noted=is_noted)


def _manifest_of(files: SimulatedFiles, directory: str) -> manifest.Manifest:
    return manifest.decode(files.synced_content(f"{directory}/{MANIFEST}"))


def _is_sealed(noted: manifest.Manifest, base: int, size: int) -> bool:
    sealed = noted.sealed.get(base)
    return sealed is not None and sealed.size == size


def _flip_anywhere(files: SimulatedFiles, path: str, chance: Random, start: int = 0) -> None:
    size = files.size(path)
    if size > start:
        files.flip(path, chance.randrange(start, size), chance.randrange(8), is_covered=True)


def _repairable_logs(world: World, number: int) -> Iterator[str]:
    """Yields segments whose committed records another live replica has too."""
    files = world.spus[number].files
    damaged = flipped_logs(world.spus[number])
    for path in files.paths():
        directory, _, name = path.rpartition("/")
        file, key = parse_file_name(name), replica_of(directory)
        if file is None or file.kind is not Kind.LOG or key is None or path in damaged or not files.is_at_rest(path):
            continue
        noted, batches = _manifest_of(files, directory), list(iterate(files.content(path)))
        if not batches:
            continue
        end = batches[-1][1].next_offset
        if not _is_sealed(noted, file.offset, files.size(path)) and end > noted.trusted_end:
            continue  # recovery would truncate it as if it had never been written
        copies = [copy for copy in _live_copies(world, number, *key) if copy.high_watermark >= end]
        if any(copy.log.log_start <= file.offset for copy in copies):
            yield path


def _repairable_shelves(world: World, number: int) -> Iterator[str]:
    """Yields segments of shelves that another running store has too."""
    files, damaged = world.spus[number].files, flipped_logs(world.spus[number])
    for key, stores in shelves_on(world, number).items():
        directory = shelf_directory(DATA_DIRECTORY, key)
        others = [batches_of(world.spus[store].files, key) for store in stores if store in world.running_spus()]
        for name in files.names(directory):
            path, file = f"{directory}/{name}", parse_file_name(name)
            if file is None or file.kind is not Kind.LOG or path in damaged or not files.is_at_rest(path):
                continue
            batches = {
                (header.base_offset, header.next_offset, header.crc) for _, header in iterate(files.content(path))
            }
            if batches and any(batches <= other for other in others):
                yield path


def _open_logs(world: World, number: int) -> Iterator[tuple[str, int]]:
    """Yields the open segments of a running process, and the offset up to which another live replica has committed
    records."""
    process = world.running_spus().get(number)
    damaged = flipped_logs(world.spus[number])
    for replica in process.replicas if process is not None else ():
        facts = replica.log.segments()[-1]
        path = _open_path(replica)
        if not facts.size or replica.offline_reason or path in damaged:
            continue
        copies = [copy for copy in _live_copies(world, number, *replica.key) if copy.log.log_start <= facts.base]
        yield path, max((copy.high_watermark for copy in copies), default=0)


def _live_copies(world: World, number: int, topic_id: UUID, partition: int) -> Iterator[Replica]:
    """Yields the other live replicas that run."""
    for spu, process in world.running_spus().items():
        found = process.replicas.find(topic_id, partition) if spu != number else None
        if found is not None and found.is_open and not found.offline_reason and spu in found.spec.live_replicas:
            yield found
