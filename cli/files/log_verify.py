"""`tailrace log verify DIR`: checks every byte of the replicas in a directory, offline, and changes nothing."""

import argparse
import json
import os.path
import sys
from collections.abc import Iterator

from tailrace.cli.output.printing import for_encoding, plain, size_text
from tailrace.cli.output.progress import Progress
from tailrace.runtime.files import Files, RealFiles
from tailrace.storage.directory.layout import log_bytes
from tailrace.storage.verification.replica_verification import ReplicaVerification
from tailrace.storage.verification.segment_verification import Finding
from tailrace.storage.verification.verification import (
    data_directories_below,
    replicas_below,
    verify_checkpoints,
)

_DAMAGED = 1
_NOTHING_TO_VERIFY = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "directory", metavar="DIR", help="A data directory, or any directory in it down to a replica's."
    )
    parser.add_argument(
        "--output",
        "-o",
        choices=("table", "json"),
        default="table",
        help="Output format; json prints one object per line (default: table).",
    )
    parser.add_argument(
        "--progress", action="store_true", help="Report progress on standard error even if it is not a terminal."
    )


def run(arguments: argparse.Namespace) -> int:
    """Verifies a directory and returns the exit status."""
    files = RealFiles(read_only=True)
    directory = os.path.abspath(arguments.directory)
    try:
        replicas = list(replicas_below(files, directory))
        data_directories = list(data_directories_below(files, directory))
        total_bytes = sum(log_bytes(files, replica) for replica in replicas)
    except OSError as error:
        return _fail(f"{error.filename or directory} cannot be read: {error.strerror}")
    if not replicas and not data_directories:
        exists = files.exists(directory)
        return _fail(f"{directory} {'holds no data of tailrace' if exists else 'does not exist'}")
    job = _Job(files, Progress(total_bytes, wanted=arguments.progress), as_json=arguments.output == "json")
    for data_directory in data_directories:
        job.report(verify_checkpoints(files, data_directory), data_directory)
    for replica in replicas:
        job.verify(replica)
    job.summarize()
    return _DAMAGED if job.damage_count else 0


def _fail(sentence: str) -> int:
    print(f"tailrace log verify: {sentence}", file=sys.stderr)
    return _NOTHING_TO_VERIFY


class _Job:
    """One run of the command: verifies replicas, prints findings, and counts them."""

    def __init__(self, files: Files, progress: Progress, *, as_json: bool) -> None:
        self.damage_count = 0
        self._files = files
        self._progress = progress
        self._as_json = as_json
        self._note_count = 0
        self._replica_count = 0
        self._segment_count = 0
        self._read_bytes = 0

    def verify(self, replica: str) -> None:
        """Verifies one replica."""
        verification = ReplicaVerification(self._files, replica, self._on_bytes)
        self.report(verification.findings(), replica)
        self._replica_count += 1
        self._segment_count += verification.segment_count

    def _on_bytes(self, count: int) -> None:
        self._read_bytes += count
        self._progress.add(count)

    def report(self, findings: Iterator[Finding], directory: str) -> None:
        """Prints and counts findings."""
        try:
            for finding in findings:
                self._print(finding)
        except OSError as error:
            sentence = f"cannot be read: {error.strerror or error}"
            self._print(Finding(str(error.filename or directory), None, sentence, is_damage=True))

    def _print(self, finding: Finding) -> None:
        self._progress.clear()
        self.damage_count += finding.is_damage
        self._note_count += not finding.is_damage
        severity = "damage" if finding.is_damage else "note"
        if self._as_json:
            _print_json(
                {
                    "type": severity,
                    "path": finding.path,
                    "position": finding.position,
                    "sentence": finding.sentence,
                }
            )
        else:
            place = f" position {finding.position}:" if finding.position is not None else ""
            line = f"{severity:6}  {plain(finding.path)}:{place} {plain(finding.sentence)}"
            print(for_encoding(line, sys.stdout.encoding), flush=True)

    def summarize(self) -> None:
        """Prints what was verified and found."""
        self._progress.clear()
        if self._as_json:
            _print_json(
                {
                    "type": "summary",
                    "replicas": self._replica_count,
                    "segments": self._segment_count,
                    "bytes": self._read_bytes,
                    "damage": self.damage_count,
                    "notes": self._note_count,
                }
            )
            return
        verified = (
            f"{_count(self._replica_count, 'replica')}, {_count(self._segment_count, 'segment')},"
            f" {size_text(self._read_bytes)} of batches"
        )
        found = "no damage" if self.damage_count == 0 else f"{self.damage_count} × damage"
        notes = f", {_count(self._note_count, 'note')}" if self._note_count else ""
        print(for_encoding(f"{verified}: {found}{notes}", sys.stdout.encoding))


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _print_json(row: dict[str, object]) -> None:
    print(json.dumps(row), flush=True)
