"""`tailrace partition states`: how the status of a partition changes, as a Mermaid diagram; it asks nobody."""

import argparse

from tailrace.controller.objects.partition_states import mermaid


def configure(parser: argparse.ArgumentParser) -> None:
    """There is nothing to choose."""


def run(arguments: argparse.Namespace) -> int:
    print(mermaid())
    return 0
