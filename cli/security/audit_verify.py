"""`tailrace audit verify`: checks that audit logs, in files or in a topic, are as the servers wrote them."""

import argparse
import json
import os.path
import re
import sys
from collections.abc import Mapping, Sequence

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.output.printing import counted, for_encoding, plain
from tailrace.client.log_client import LogClient
from tailrace.runtime.files import Files, RealFiles
from tailrace.security.audit.audit_chain import ChainState
from tailrace.security.audit.audit_signatures import KeyFileError, SignatureCheck, signature_check_of
from tailrace.security.audit.audit_verification import AuditSummary, AuditVerification
from tailrace.security.audit.topic_verification import TopicVerification
from tailrace.server.auditing.audit_files import HEAD, VERIFICATION_KEY, log_names

from .audit_directories import add_directory, audit_directories, lines_of, nothing_found
from .audit_topic_options import add_topic, ask_topic, check_without_topic, records_of

_DAMAGED = 1
_NOTHING_TO_VERIFY = 2
_EXPECTED = re.compile(r"([1-9][0-9]{0,18}):([0-9a-f]{64})")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_directory(parser)
    add_topic(parser)
    parser.add_argument(
        "--key",
        metavar="FILE",
        action="append",
        help="The public key that verifies the signatures; may be repeated. Keep copies elsewhere: the key beside the "
        "log is used otherwise, or the one in the topic, and a person who forges a log can replace it.",
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
    if arguments.topic is not None:
        return ask_topic("audit verify", _verify_topic, arguments)
    wrong = check_without_topic(arguments)
    if wrong is not None:
        return _fail(wrong)
    files = RealFiles(read_only=True)
    directories = audit_directories(files, arguments.directory)
    if not directories:
        return _fail(nothing_found(arguments.directory))
    status = 0
    for directory in directories:
        try:
            expected, keys = _expected(arguments), _keys(files, arguments.key or ())
            if expected is not None and len(directories) > 1:
                raise UsageError("--expect is about one log; name its directory")
            beside = os.path.join(directory, VERIFICATION_KEY)
            check = _fitting(keys, files, beside) if keys else _key(files, beside)
            summary = verify_directory(files, directory, check, expected)
        except UsageError as error:
            return _fail(str(error))
        except OSError as error:
            return _fail(f"{error.filename or directory} cannot be read: {error.strerror}")
        _print(directory, summary, as_json=arguments.output == "json")
        if summary.fault_count:
            status = _DAMAGED
    return status


async def _verify_topic(logs: LogClient, arguments: argparse.Namespace) -> int:
    files = RealFiles(read_only=True)
    try:
        keys = _keys(files, arguments.key or ())
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error
    verification = TopicVerification(keys or None, _expected(arguments))
    async for where, record in records_of(logs, arguments.topic):
        verification.read(where, record.key, record.value)
    found, status = verification.end(), 0
    if not found:
        return _fail(f"there is no audit log in the topic {arguments.topic}; copy it there with audit.log.topic")
    if verification.others.fault_count:
        found = {"": verification.others, **found}
    for name, summary in found.items():
        place = f"{arguments.topic} {name}".rstrip()
        _print(place, summary, as_json=arguments.output == "json")
        status = _DAMAGED if summary.fault_count else status
    return status


def _expected(arguments: argparse.Namespace) -> ChainState | None:
    if arguments.expect is None:
        return None
    match = _EXPECTED.fullmatch(arguments.expect)
    if match is None:
        raise UsageError(f"--expect {arguments.expect[:100]}: expected LINE:HASH, as this command prints it")
    return ChainState(int(match[1]), match[2])


def _keys(files: Files, paths: Sequence[str]) -> dict[str, SignatureCheck]:
    """Returns the keys in the files, by their texts. Raises UsageError and OSError."""
    checks = [_key(files, each) for each in paths]
    return {each.public_text(): each for each in checks}


def _key(files: Files, path: str) -> SignatureCheck:
    try:
        return signature_check_of(files.read(path))
    except KeyFileError as error:
        raise UsageError(f"{path} cannot verify signatures: {error}") from error


def _fitting(keys: Mapping[str, SignatureCheck], files: Files, beside: str) -> SignatureCheck:
    """Returns the given key that is also beside the log, or any of them if none is."""
    try:
        text = signature_check_of(files.read(beside)).public_text()
    except (KeyFileError, OSError):
        text = ""
    return keys.get(text) or next(iter(keys.values()))


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
