"""`tailrace audit verify DIR`: checks that an audit log is as the server wrote it."""

import argparse
import json
import os.path
import re
import sys

from tailrace.cli.output.printing import counted, for_encoding, plain
from tailrace.runtime.files import Files, RealFiles
from tailrace.security.audit.audit_chain import ChainState
from tailrace.security.audit.audit_signatures import KeyFileError, SignatureCheck, signature_check_of
from tailrace.security.audit.audit_verification import AuditSummary, AuditVerification
from tailrace.server.auditing.audit_files import HEAD, VERIFICATION_KEY, log_names

from .audit_directories import add_directory, audit_directories, lines_of, nothing_found

_DAMAGED = 1
_NOTHING_TO_VERIFY = 2
_EXPECTED = re.compile(r"([1-9][0-9]{0,18}):([0-9a-f]{64})")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_directory(parser)
    parser.add_argument(
        "--key",
        metavar="FILE",
        help="The public key that verifies the signatures. Keep a copy elsewhere: the one beside the log is used "
        "otherwise, and a person who forges a log can replace it.",
    )
    parser.add_argument(
        "--expect",
        metavar="LINE:HASH",
        help="The end of the log that an earlier run has printed. It must still be in the log.",
    )
    parser.add_argument(
        "--output",
        "-o",
        choices=("table", "json"),
        default="table",
        help="Output format; json prints one object per log (default: table).",
    )


def run(arguments: argparse.Namespace) -> int:
    """Verifies the logs and returns the exit status."""
    files = RealFiles(read_only=True)
    directories = audit_directories(files, arguments.directory)
    if not directories:
        return _fail(nothing_found(arguments.directory))
    expected = None
    if arguments.expect is not None:
        match = _EXPECTED.fullmatch(arguments.expect)
        if match is None:
            return _fail(f"--expect {arguments.expect[:100]}: expected LINE:HASH, as this command prints it")
        if len(directories) > 1:
            return _fail("--expect is about one log; name its directory")
        expected = ChainState(int(match[1]), match[2])
    status = 0
    for directory in directories:
        key_path = arguments.key or os.path.join(directory, VERIFICATION_KEY)
        try:
            summary = verify_directory(files, directory, signature_check_of(files.read(key_path)), expected)
        except KeyFileError as error:
            return _fail(f"{key_path} cannot verify signatures: {error}")
        except OSError as error:
            return _fail(f"{error.filename or directory} cannot be read: {error.strerror}")
        _print(directory, summary, as_json=arguments.output == "json")
        if summary.fault_count:
            status = _DAMAGED
    return status


def verify_directory(
    files: Files, directory: str, check: SignatureCheck, expected: ChainState | None = None
) -> AuditSummary:
    """Verifies one log. Raises OSError."""
    verification = AuditVerification(check, expected)
    head = os.path.join(directory, HEAD)
    head_content = files.read(head) if files.exists(head) else None  # first: the server may write while this reads
    for name in log_names(files, directory):
        for _ in verification.read_file(name, lines_of(files.read(os.path.join(directory, name)))):
            pass
    return verification.end(head_content)


def _fail(sentence: str) -> int:
    print(f"tailrace audit verify: {sentence}", file=sys.stderr)
    return _NOTHING_TO_VERIFY


def _print(directory: str, summary: AuditSummary, *, as_json: bool) -> None:
    if as_json:
        document = {
            "directory": directory,
            "intact": not summary.fault_count,
            "first": summary.first,
            "last": summary.end.number,
            "hash": summary.end.hash,
            "events": summary.events,
            "faults": summary.faults,
        }
        print(json.dumps(document))
        return
    for fault in summary.faults:
        print(for_encoding(f"damage  {plain(directory)}: {plain(fault)}", sys.stdout.encoding))
    if summary.fault_count > len(summary.faults):
        print(f"damage  and {summary.fault_count - len(summary.faults)} more")
    verdict = f"{counted(summary.fault_count, 'fault')} found" if summary.fault_count else "intact"
    older = "" if summary.first <= 1 else f", older lines up to {summary.first - 1} were removed"
    print(
        for_encoding(f"{plain(directory)}: {verdict}, {counted(summary.events, 'event')}{older}", sys.stdout.encoding)
    )
    print(f"end of the log: {summary.end.number}:{summary.end.hash}")
