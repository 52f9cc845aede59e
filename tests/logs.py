"""Makes single logs, which share nothing with other logs."""

from tailrace.runtime.files import Files
from tailrace.storage.directory.directory_syncs import DirectorySyncs
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig


def log_at(
    files: Files,
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    rewrite_unsynced: bool = False,
    open_files: OpenFiles | None = None,
) -> Log:
    return Log(
        files,
        directory,
        config,
        clean=clean,
        rewrite_unsynced=rewrite_unsynced,
        open_files=OpenFiles(files) if open_files is None else open_files,
        directory_syncs=DirectorySyncs(files),
    )
