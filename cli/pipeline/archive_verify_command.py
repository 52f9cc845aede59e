"""`tailrace pipeline archive verify`: proves that an archive has every committed record exactly once.

Exit status: 0 proven, 1 not proven or refused, 2 wrong usage or a directory that is no archive, 3 no broker responds,
or the SC that has the head is unreachable.
"""

import argparse
from typing import TYPE_CHECKING

from tailrace.cli.output.tables import table
from tailrace.pipeline.archive.manifest.rollup_sums import rollup_text
from tailrace.pipeline.archive.proofs import verify_arguments
from tailrace.pipeline.jobs.job_status import EXPECTED

from .archived_topics import topic_labels
from .job_output import failed, job_progress, show

if TYPE_CHECKING:
    from tailrace.pipeline.archive.proofs.archive_proof import PartitionProof
    from tailrace.pipeline.archive.proofs.archive_verification import VerifyResult

_NAME = "pipeline archive verify"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    verify_arguments.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    progress = job_progress("verifying", "tasks")
    try:
        result = verify_arguments.run_verify(verify_arguments.asked(arguments), progress.move_to)
    except EXPECTED as error:
        return failed(_NAME, error)
    finally:
        progress.clear()
    show(result.json() if arguments.output == "json" else _text(result))
    return result.status


def _text(result: "VerifyResult") -> str:
    titles = ("TOPIC", "PARTITION", "FIRST", "LAST", "RECORDS", "GAPS", "FILES", "COMPARED", "ROLL-UP", "PROVEN")
    labels = topic_labels((each.topic, each.topic_id) for each in result.partitions)
    rows = [_row(labels[each.topic, each.topic_id], each) for each in result.partitions]
    lines = [table(titles, rows)] if rows else []
    lines += [f"problem: {each}" for each in result.problems]
    lines += [f"note: {each}" for each in result.notes]
    lines += [f"does not count: {each}" for each in result.orphans]
    if (more := int(result.facts["files that do not count"] or 0) - len(result.orphans)) > 0:
        lines.append(f"does not count: {more} more files")
    return "\n".join([*lines, f"{'proven' if result.is_ok else 'not proven'}: {result.verdict}"])


def _row(topic: str, proof: "PartitionProof") -> tuple[object, ...]:
    return (
        topic,
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
