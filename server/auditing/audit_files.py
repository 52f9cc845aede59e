"""The files of an audit log: appends signed batches of lines, rolls and removes files, and goes on after a restart.

The directory has the lines in `audit-<number of the first line>.log`, the signed end of the log in `head`, and keys.
A process begins with a new file, so that it never appends to what an earlier one may have left incomplete.
"""

import json
import posixpath
import re
from collections.abc import Sequence

from msgspec import Struct

from tailrace.runtime.files import File, Files
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.security.audit.audit_chain import ChainState, chained, parse_line
from tailrace.security.audit.audit_event import AuditEvent, AuditKind, fields_of, time_text
from tailrace.security.audit.audit_signatures import (
    KeyFileError,
    Signer,
    new_private_pem,
    signature_check_of,
    signer_of,
)
from tailrace.security.audit.audit_verification import head_document

DIRECTORY = "audit"
"""The name of the directory, in the data directory of a server."""
HEAD = "head"
SIGNING_KEY = "signing-key.pem"
VERIFICATION_KEY = "verification-key.pem"
_NAME = re.compile(r"audit-[0-9]{20}\.log")


class AuditFileSettings(Struct, frozen=True):
    """The settings of the files."""

    directory: str
    key_path: str | None = None
    """The file with the key that signs; None for a key that the server makes and keeps in the directory."""
    file_bytes: int = 16 * 1024 * 1024
    """The size from which the next batch goes to a new file."""
    retained_bytes: int = 1024 * 1024 * 1024
    """The size of all files together from which the oldest is removed; -1 for no limit."""


class AuditFiles:
    """Appends to an audit log. `open` comes first. Every call may raise OSError."""

    def __init__(self, settings: AuditFileSettings, files: Files, logger: FilteringBoundLogger) -> None:
        self._settings = settings
        self._files = files
        self._logger = logger
        self._signer: Signer | None = None
        self._state = ChainState()
        self._file: File | None = None
        self._size_bytes = 0
        self._end: tuple[str, int] | None = None
        self._is_torn = False
        """Whether there may be bytes behind the end of the chain, from a write that has failed."""

    @property
    def end(self) -> tuple[str, int] | None:
        """The name of the file that is being written, and how many of its bytes count. None before the first write."""
        return self._end

    def public_key(self) -> str:
        """Returns the key that verifies the signatures, as one short text."""
        assert self._signer is not None, "`open` comes first"
        return self._signer.public_text()

    async def open(self) -> None:
        """Finds the end of the log. Makes the keys if there are none. Raises KeyFileError."""
        directory = self._settings.directory
        if self._files.make_directories(directory):
            await self._files.sync_directory(posixpath.dirname(directory))
        self._signer = await self._load_signer()
        await self._files.replace(posixpath.join(directory, VERIFICATION_KEY), self._signer.public_pem())
        self._state = self._last_state()
        head = self._head()
        if head.number > self._state.number:
            self._logger.error("audit_log_truncated", lines=head.number - self._state.number, directory=directory)
            self._state = head

    async def write(self, events: Sequence[AuditEvent], now_ms: int) -> None:
        """Writes the events and a signature of the log. On return they are on the disk.

        If it raises OSError, none of them counts as written.
        """
        if self._file is None or self._size_bytes >= self._settings.file_bytes:
            await self._roll(now_ms)
        lines, state = [], self._state
        for event in events:
            line, state = chained(state, fields_of(event))
            lines.append(line)
        await self._append(lines, state, now_ms)
        try:
            await self._files.replace(self._path(HEAD), head_document(self._state, self._signed(self._state)))
        except OSError as error:
            self._logger.warning("audit_head_failed", reason=str(error))

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _append(self, lines: list[bytes], state: ChainState, now_ms: int) -> None:
        checkpoint = {"time": time_text(now_ms), "event": AuditKind.CHECKPOINT, "signature": self._signed(state)}
        line, state = chained(state, checkpoint)
        data = b"".join((*lines, line))
        assert self._file is not None
        try:
            self._file.append(data)
            await self._file.sync()
        except BaseException:  # also if it is cancelled: these lines do not count, and others get their numbers
            self._drop_failed()
            raise
        self._state = state
        self._size_bytes += len(data)
        self._end = (posixpath.basename(self._file.path), self._size_bytes)

    def _drop_failed(self) -> None:
        """Removes what a failed write has left, or goes on in another file if that fails too."""
        assert self._file is not None
        try:
            self._file.truncate(self._size_bytes)
        except OSError:
            self._is_torn = True
            self.close()

    async def _roll(self, now_ms: int) -> None:
        """Begins a new file, whose first line names the end of the one before."""
        self.close()
        path = self._path(f"audit-{self._state.number + 1:020}.log")
        self._file = self._files.open(path, create=True)
        self._file.truncate(0)  # an earlier attempt may have failed
        self._size_bytes = 0
        fields: dict[str, object] = {
            "time": time_text(now_ms),
            "event": AuditKind.BEGIN,
            "previous": self._state.hash,
        }
        if self._is_torn:
            fields["torn"] = True
        begin, state = chained(self._state, fields)
        try:
            await self._append([begin], state, now_ms)
        except BaseException:
            self.close()
            raise
        self._is_torn = False
        await self._files.sync_directory(self._settings.directory)
        await self._remove_old()

    async def _remove_old(self) -> None:
        limit = self._settings.retained_bytes
        names = log_names(self._files, self._settings.directory)
        sizes = {name: self._files.size(self._path(name)) for name in names}
        total = sum(sizes.values())
        for name in names[:-1]:
            if limit < 0 or total <= limit:
                break
            await self._files.discard(self._path(name))
            total -= sizes[name]
            self._logger.info("audit_file_removed", file=name)

    async def _load_signer(self) -> Signer:
        path = self._settings.key_path or self._path(SIGNING_KEY)
        if self._settings.key_path is None and not self._files.exists(path):
            self._files.write_private(path, new_private_pem())
            await self._files.sync_directory(self._settings.directory)
        try:
            return signer_of(self._files.read(path))
        except KeyFileError as error:
            raise KeyFileError(f"{path} cannot sign the audit log: {error}") from error

    def _last_state(self) -> ChainState:
        """Returns the last complete line of the newest file that has one."""
        for name in reversed(log_names(self._files, self._settings.directory)):
            content = self._files.read(self._path(name))
            *lines, rest = content.split(b"\n")
            self._is_torn = self._is_torn or bool(rest)
            for line in reversed(lines):
                parsed = parse_line(line)
                if parsed is not None:
                    return ChainState(parsed.number, parsed.hash)
                self._is_torn = True
        return ChainState()

    def _head(self) -> ChainState:
        """Returns the end of the log that was written last, or none if it is missing or not signed with our key."""
        assert self._signer is not None
        try:
            document = json.loads(self._files.read(self._path(HEAD)))
            state = ChainState(int(document["n"]), str(document["hash"]))
            fits = signature_check_of(self._signer.public_pem()).fits(state, document["signature"])
        except (OSError, ValueError, KeyError, TypeError):
            return ChainState()
        return state if fits else ChainState()

    def _signed(self, state: ChainState) -> str:
        assert self._signer is not None, "`open` comes first"
        return self._signer.sign(state)

    def _path(self, name: str) -> str:
        return posixpath.join(self._settings.directory, name)


def log_names(files: Files, directory: str) -> list[str]:
    """Returns the names of the files with lines, in the order of the lines."""
    return [name for name in files.list(directory) if _NAME.fullmatch(name)]
