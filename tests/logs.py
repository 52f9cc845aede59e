"""Logs by themselves: what all logs of an SPU share, each of these has alone."""

from tailrace.runtime.files import Files
from tailrace.storage.directory_syncs import DirectorySyncs
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.open_files import OpenFiles


def log_at(files: Files, directory: str, config: LogConfig, *, clean: bool, open_files: OpenFiles | None = None) -> Log:
    if open_files is None:
        open_files = OpenFiles(files)
    return Log(files, directory, config, clean=clean, open_files=open_files, directory_syncs=DirectorySyncs(files))
