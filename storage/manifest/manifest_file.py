"""The manifest file of one replica: lines are appended to it, or the whole file is replaced atomically."""

from collections.abc import Sequence

from tailrace.runtime.files import File, Files
from tailrace.storage.directory.file_shortening import shorten
from tailrace.storage.directory.layout import MANIFEST

from . import manifest
from .manifest import Manifest

_LINES_MAX = 1000
"""After this many appended lines the file is worth rewriting."""


class ManifestFile:
    """Reads and writes one manifest. It has one writer at a time: the log holds its lock around every call."""

    __slots__ = ("_appended_lines", "_directory", "_files", "_is_damaged", "_path", "_torn_from")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{MANIFEST}"
        self._appended_lines = 0
        self._is_damaged = False
        self._torn_from: int | None = None
        """The position of a line that was written in part and could not be truncated either; None if there is none."""

    def load(self, *, rewrite_unsynced: bool = False) -> Manifest | None:
        """Loads the manifest, and truncates an unfinished last line so that others can follow.

        Returns None if there is no file.

        Raises OSError if the file has another format version. `rewrite_unsynced`: a sync of the file may have failed,
        and the next sync would not bring that part to the disk; so everything is written again.
        """
        try:
            data = self._files.read(self._path)
        except FileNotFoundError:
            return None
        content = manifest.decode(data)
        if content.version != manifest.VERSION:
            raise OSError(
                f"{self._path} has format version {content.version}, and this Tailrace knows {manifest.VERSION}: "
                "start the version of Tailrace that wrote it"
            )
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._files.open(self._path).truncate(whole)
        if rewrite_unsynced:
            self._files.open(self._path).write_at(0, data[:whole])
        self._appended_lines = data.count(b"\n") - len(content.sealed) - len(content.epochs)
        self._is_damaged = content.damaged_lines > 0
        return content

    @property
    def wants_replacement(self) -> bool:
        """Whether the file should be rewritten: it has many lines, or a damaged one.

        A line that a power failure tore says nothing but would later look like damage.
        """
        return self._is_damaged or self._appended_lines > _LINES_MAX

    def append(self, lines: Sequence[bytes]) -> File:
        """Appends the lines and returns the file, for a caller that needs to sync it."""
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
        """Syncs the file in place. Its last lines may come from a process that was killed before it could sync them."""
        self._files.open(self._path).sync_now()

    async def replace(self, content: Manifest) -> None:
        """Replaces the file atomically by this content."""
        await self._files.replace(self._path, manifest.encode(content))
        self._reset()

    async def replace_if_room(self, content: Manifest) -> bool:
        """Replaces the file if the disk has room, and returns whether it did. See `file_shortening`."""
        is_done = await shorten(self._files, self._path, manifest.encode(content))
        if is_done:
            self._reset()
        return is_done

    def _reset(self) -> None:
        self._torn_from = None
        self._appended_lines = 0
        self._is_damaged = False
