"""The manifest of one replica on the disk: lines are appended to it, or the whole is replaced atomically."""

from collections.abc import Sequence

from tailrace.runtime.files import File, Files
from tailrace.storage.directory.file_shortening import shorten
from tailrace.storage.directory.layout import MANIFEST

from . import manifest
from .manifest import Manifest

_LINES_MAX = 1000
"""After so many appended lines the file is worth being written anew."""


class ManifestFile:
    """One writer at a time: the log holds its lock around every call."""

    __slots__ = ("_appended_lines", "_directory", "_files", "_is_damaged", "_path", "_torn_from")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{MANIFEST}"
        self._appended_lines = 0
        self._is_damaged = False
        self._torn_from: int | None = None
        """Where a line begins of which only a part could be written, and that could not be cut off either."""

    def load(self, *, writes_again: bool = False) -> Manifest | None:
        """None when there is none yet. A line that was never finished is cut off, so that others can follow. OSError
        when another version of Tailrace wrote it in a way that this one does not know. `writes_again`: what is there,
        for a sync of it may have failed, and the next one would not bring that to the disk."""
        try:
            data = self._files.read(self._path)
        except FileNotFoundError:
            return None
        content = manifest.decode(data)
        if content.version != manifest.VERSION:
            raise OSError(
                f"{self._path} has format version {content.version}, and this Tailrace knows {manifest.VERSION}: "
                "run the one that wrote it"
            )
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._files.open(self._path).truncate(whole)
        if writes_again:
            self._files.open(self._path).write_at(0, data[:whole])
        self._appended_lines = data.count(b"\n") - len(content.sealed) - len(content.epochs)
        self._is_damaged = content.damaged_lines > 0
        return content

    @property
    def wants_replacement(self) -> bool:
        """Also when a power failure tore a line that was not synced: it says nothing, but would look like damage."""
        return self._is_damaged or self._appended_lines > _LINES_MAX

    def append(self, lines: Sequence[bytes]) -> File:
        """Returns the file, for whoever needs the lines on the disk now."""
        file = self._files.open(self._path, create=True)
        if self._torn_from is not None:
            file.truncate(self._torn_from)
            self._torn_from = None
        before = file.size()
        try:
            file.append(b"".join(lines if before else [manifest.format_line(), *lines]))
        except OSError:
            self._torn_from = before
            file.truncate(before)
            self._torn_from = None
            raise
        self._appended_lines += len(lines)
        return file

    def sync_now(self) -> None:
        """What it says is on the disk then, also what a process wrote that was killed before it could sync it."""
        self._files.open(self._path).sync_now()

    async def replace(self, content: Manifest) -> None:
        await self._files.replace(self._path, manifest.encode(content))
        self._begin_again()

    async def replace_if_room(self, content: Manifest) -> bool:
        """Whether there was room for it: see `shortening`."""
        is_done = await shorten(self._files, self._path, manifest.encode(content))
        if is_done:
            self._begin_again()
        return is_done

    def _begin_again(self) -> None:
        self._torn_from = None
        self._appended_lines = 0
        self._is_damaged = False
