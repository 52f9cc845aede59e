"""Finds the replicas and data directories below a directory, and verifies the checkpoints beside the replicas."""

from collections.abc import Iterator

from tailrace.runtime.files import Files
from tailrace.storage.directory.checkpoints import (
    decode_clean_shutdown_mark,
    decode_high_watermarks,
    decode_removed_replicas,
)
from tailrace.storage.directory.layout import (
    MANIFEST,
    clean_shutdown_path,
    high_watermarks_path,
    parse_file_name,
    promises_path,
    removed_directory,
    removed_replicas_path,
    removed_shelves_directory,
    store_path,
    topics_directory,
)
from tailrace.storage.directory.promises import PROMISES_MAGIC, damaged_position
from tailrace.storage.directory.store_incarnation import read_store

from .segment_verification import Finding

_REPLICA_DEPTH_MAX = 5
"""The depth of a replica below the parent of a data directory: the data directory, `topics`, a name, an id, a
partition."""


def replicas_below(files: Files, directory: str, depth: int = _REPLICA_DEPTH_MAX) -> Iterator[str]:
    """Yields the directories of all replicas and shelves from this one downwards, except those being removed."""
    names = _names(files, directory)
    if any(name == MANIFEST or parse_file_name(name) is not None for name in names):
        yield directory
    elif depth:
        is_data_directory = {"topics", "lock"} <= set(names)
        for name in names:
            path = f"{directory}/{name}"
            if not (is_data_directory and path in (removed_directory(directory), removed_shelves_directory(directory))):
                yield from replicas_below(files, path, depth - 1)


def data_directories_below(files: Files, directory: str, depth: int = 1) -> Iterator[str]:
    """Yields this directory if it is a data directory, otherwise those directly below it."""
    own = (topics_directory(directory), high_watermarks_path(directory), clean_shutdown_path(directory))
    if any(files.exists(path) for path in own):
        yield directory
    elif depth:
        for name in _names(files, directory):
            yield from data_directories_below(files, f"{directory}/{name}", depth - 1)


def _names(files: Files, directory: str) -> list[str]:
    try:
        return files.list(directory)
    except NotADirectoryError:
        return []


def verify_checkpoints(files: Files, data_directory: str) -> Iterator[Finding]:
    """Verifies the checkpoints of a data directory and yields what it finds."""
    path = high_watermarks_path(data_directory)
    if files.exists(path) and decode_high_watermarks(files.read(path)) is None:
        yield Finding(path, None, "its checksum does not match; it counts as missing", is_damage=True)
    path = promises_path(data_directory)
    if files.exists(path):
        yield from _verify_promises(path, files.read(path))
    path = store_path(data_directory)
    if files.exists(path) and read_store(files, data_directory) is None:
        yield Finding(path, None, "is damaged; all replicas of this store will be in doubt", is_damage=True)
    path = clean_shutdown_path(data_directory)
    if files.exists(path) and decode_clean_shutdown_mark(files.read(path)) is None:
        yield Finding(path, None, "its checksum does not match; it counts as missing", is_damage=True)
    path = removed_replicas_path(data_directory)
    if files.exists(path) and decode_removed_replicas(files.read(path)) is None:
        yield Finding(path, None, "its checksum does not match; it counts as missing", is_damage=True)


def _verify_promises(path: str, data: bytes) -> Iterator[Finding]:
    if not data.startswith(PROMISES_MAGIC):
        yield Finding(path, 0, "does not begin as a file of promises", is_damage=True)
        return
    position = damaged_position(data)
    if position is not None:
        sentence = "is incomplete, as after a crash; all replicas of this store will be in doubt"
        yield Finding(path, position, sentence, is_damage=False)
