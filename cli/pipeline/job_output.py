"""What commands of jobs print: their progress, their result, and the sentence of an error."""

import sys

from tailrace.cli.options.sc_options import say
from tailrace.cli.output.printing import for_encoding
from tailrace.cli.output.progress import Progress
from tailrace.pipeline.jobs.job_status import status_of


def job_progress(doing: str, unit: str) -> Progress:
    """Returns the progress bar of a job, which tells the amount of work itself."""
    return Progress(0, wanted=False, doing=doing, amount=lambda count: f"{count} {unit}")


def show(text: str) -> None:
    """Prints a result."""
    print(for_encoding(text, sys.stdout.encoding), flush=True)


def failed(name: str, error: Exception) -> int:
    """Prints one of the expected errors of a job, and returns the exit status."""
    say(name, str(error))
    return status_of(error)
