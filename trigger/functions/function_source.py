"""Where a function is: a file, a name in it, and for a deployed trigger a snapshot of the file's text."""

import importlib.machinery
import importlib.util
import os
import re

from msgspec import Struct
from msgspec.structs import replace

_TARGET = re.compile(r"(?P<path>.+):(?P<handler>[A-Za-z_][A-Za-z0-9_]*)")


class FunctionLoadError(Exception):
    """A function cannot be loaded. The message is one sentence with the file and, where there is one, the line."""


class FunctionSource(Struct, frozen=True):
    """A function in a file."""

    path: str
    """The absolute path of the file, which tracebacks show."""
    handler: str | None = None
    """The name of the function in the file; None if the file leaves no choice."""
    source: str | None = None
    """The text of the file when the trigger was deployed; None to read the file."""
    directory: str | None = None
    """The directory from which the file imports its neighbours; None for that of the file."""

    @property
    def import_directory(self) -> str:
        """The directory from which the file imports its neighbours."""
        return self.directory or os.path.dirname(self.path)


def source_of(target: str) -> FunctionSource:
    """Makes the source that `FILE` or `FILE:NAME` means."""
    found = _TARGET.fullmatch(target)
    if found is not None and not os.path.isfile(target):
        return FunctionSource(os.path.abspath(found["path"]), found["handler"])
    return FunctionSource(os.path.abspath(target))


def read_source(source: FunctionSource) -> str:
    """Returns the text of the file, from the snapshot if there is one. Raises FunctionLoadError.

    Python's own loader reads the file, as it does for an import.
    """
    if source.source is not None:
        return source.source
    try:
        data = importlib.machinery.SourceFileLoader("function", source.path).get_data(source.path)
    except OSError as error:
        raise FunctionLoadError(f"{source.path}: the file cannot be read: {error.strerror}") from error
    try:
        return importlib.util.decode_source(data)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise FunctionLoadError(f"{source.path}: the file is not text in its encoding: {error}") from error


def with_snapshot(source: FunctionSource) -> FunctionSource:
    """Returns the source with the text of the file in it, so that later changes of the file have no effect."""
    return replace(source, source=read_source(source), directory=source.import_directory)
