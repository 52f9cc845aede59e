"""`tailrace pipeline archive verify`: proves that an archive has every committed record exactly once.

Exit status: 0 proven, 1 not proven or refused, 2 wrong usage or a directory that is no archive, 3 no broker responds,
or the SC that has the head does not.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from tailrace.cli.options.sc_options import REFUSED, UNREACHABLE, WRONG_USAGE, say
from tailrace.cli.output.printing import for_encoding
from tailrace.cli.output.progress import Progress
from tailrace.cli.output.tables import table
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.archive.manifest.archive_manifest import ManifestError
from tailrace.pipeline.archive.manifest.rollup_sums import rollup_text
from tailrace.pipeline.archive.proofs import verify_arguments
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError
from tailrace.runtime.settings import SettingsError

if TYPE_CHECKING:
    from tailrace.pipeline.archive.proofs.archive_proof import PartitionProof
    from tailrace.pipeline.archive.proofs.archive_verification import VerifyResult

_NAME = "pipeline archive verify"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    verify_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    try:
        asked = verify_arguments.asked(arguments)
    except (JobError, ManifestError, SettingsError) as error:
        return _fail(error, WRONG_USAGE)
    progress = Progress(0, wanted=False, doing="verifying", amount=lambda count: f"{count} tasks")
    try:
        result = verify_arguments.run_verify(asked, progress.move_to)
    except (ServerSilentError, UnreachableError) as error:
        return _fail(error, UNREACHABLE)
    except (JobError, ManifestError, RefusedError) as error:
        return _fail(error, REFUSED)
    finally:
        progress.clear()
    print(for_encoding(result.json() if arguments.output == "json" else _text(result), sys.stdout.encoding))
    return result.status


def _text(result: "VerifyResult") -> str:
    titles = ("TOPIC", "PARTITION", "FIRST", "LAST", "RECORDS", "GAPS", "FILES", "COMPARED", "ROLL-UP", "PROVEN")
    lines = [table(titles, map(_row, result.partitions))] if result.partitions else []
    lines += [f"problem: {each}" for each in result.problems]
    lines += [f"note: {each}" for each in result.notes]
    lines += [f"does not count: {each}" for each in result.orphans]
    if (more := int(result.facts["files that do not count"] or 0) - len(result.orphans)) > 0:
        lines.append(f"does not count: {more} more files")
    return "\n".join([*lines, f"{'proven' if result.is_ok else 'not proven'}: {result.verdict}"])


def _row(proof: "PartitionProof") -> tuple[object, ...]:
    return (
        proof.topic,
        proof.partition,
        proof.first,
        proof.last,
        proof.records,
        ", ".join(f"{why} {count}" for why, count in proof.gaps.items()),
        proof.files,
        proof.compared if proof.behind is not None else None,
        rollup_text(proof.rollup),
        "yes" if proof.is_proven else "no",
    )


def _fail(error: Exception, status: int) -> int:
    say(_NAME, str(error))
    return status
