"""The options of `tailrace topic create`, and the topics that they describe, for the SC and for brokers."""

import argparse

from tailrace.client.sc_client import Document
from tailrace.controller.objects.topic_documents import read_rows

from .document_files import read_document
from .sc_options import UsageError, documents_of_file, only_given, pairs, text_of_file, wait_seconds


def create_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tailrace topic create`."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="Name of the topic, unless a file has it.")
    parser.add_argument("--partitions", metavar="N", type=int, help="Number of partitions (default: 1).")
    parser.add_argument("--replication-factor", metavar="N", type=int, help="Replicas of each partition (default: 1).")
    parser.add_argument(
        "--config", metavar="NAME=VALUE", action="append", default=[], help="Config to set; may be repeated."
    )
    parser.add_argument(
        "--replica-assignment",
        metavar="FILE",
        help="YAML or JSON with the SPUs of each partition, the leader first, such as 0: [1, 2, 3].",
    )
    parser.add_argument("--ignore-racks", action="store_true", help="Place replicas without regard to racks.")
    parser.add_argument(
        "--file", "-f", metavar="FILE", help="YAML or JSON with the specs of one or more topics, instead of options."
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=wait_seconds,
        default=0.0,
        help="Wait until clients can write to the topic, at most this long.",
    )


def wanted_topics(arguments: argparse.Namespace) -> list[Document]:
    """Returns the documents of the topics to create. Only those of a file have been checked already.

    Raises UsageError, DocumentError and FieldError.
    """
    given = only_given(
        {
            "partitions": arguments.partitions,
            "replicationFactor": arguments.replication_factor,
            "ignoreRackAssignment": True if arguments.ignore_racks else None,
            "configs": pairs(arguments.config, "--config") or None,
        }
    )
    if arguments.replica_assignment is not None:
        given["replicaMap"] = rows_of_file(arguments.replica_assignment)
    if arguments.file is not None:
        if given:
            raise UsageError("--file: write partitions, configs and replicas into the file, not into options")
        return documents_of_file("topic", arguments.file, arguments.name)
    if arguments.name is None:
        raise UsageError("give the name of the topic, or --file")
    return [{"name": arguments.name} | given]


def rows_of_file(path: str) -> dict[int, list[int]]:
    """Reads the SPUs of partitions from a file, by the numbers of the partitions."""
    rows = read_rows(read_document(text_of_file(path), path), path)
    return {number: list(replicas) for number, replicas in rows.items()}
