"""The places of an archive's head. Here: beside the files. See `sc_manifest_store` for the other one."""

from tailrace.pipeline.archive.manifest.archive_layout import MANIFEST, head_name, parse_head_name
from tailrace.pipeline.archive.manifest.archive_manifest import Head, decode, encode
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.embedded.plain_files import names_in, read_file, write_once


class FileManifestStore:
    """Heads beside the files, one file for each commit. None is ever replaced or removed.

    The file of the next head is created exclusively, so of several writers one succeeds.
    """

    def __init__(self, directory: str) -> None:
        """Takes the directory of the archive."""
        self._directory = f"{directory}/{MANIFEST}"

    def read(self) -> Head | None:
        """Returns the head with the highest number; None before the first commit. Raises JobError."""
        try:
            seqs = [seq for name in names_in(self._directory) if (seq := parse_head_name(name)) is not None]
            if not seqs:
                return None
            path = f"{self._directory}/{head_name(max(seqs))}"
            return decode(read_file(path), Head, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JobError(f"{self._directory} cannot be read: {error.strerror}") from error

    def commit(self, expected_seq: int, head: Head) -> bool:
        """Makes this the head if the head's number is still `expected_seq`. Raises JobError."""
        assert head.seq == expected_seq + 1
        try:
            return write_once(f"{self._directory}/{head_name(head.seq)}", encode(head))
        except OSError as error:
            raise JobError(f"{self._directory} cannot be written: {error.strerror}") from error
