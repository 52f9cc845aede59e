"""`tailrace draw …`: draws the cluster or one partition with characters, as it is at this moment."""

import argparse
from typing import cast

import trio

from tailrace.cli.objects.controller_tables import controllers_document
from tailrace.cli.objects.partition_tables import partition_document
from tailrace.cli.objects.segment_commands import segments_document
from tailrace.cli.objects.spu_controllers import SECONDS_MAX, controllers_of
from tailrace.cli.options.sc_options import Command, UsageError, no_options, objects_in, show_documents
from tailrace.cli.options.spu_options import named_partition
from tailrace.client.group_client import GroupClient
from tailrace.client.group_responses import CLASSIC, CONSUMER
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import SC, ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import SpuClient
from tailrace.controller.objects.objects import Spu

from .cluster_picture import cluster_picture
from .partition_picture import partition_picture

Marks = dict[str, int]
"""The offset in one partition that each group has committed."""


async def _draw_cluster(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("spu")
    spus = sorted(cast(list[Spu], objects_in("spu", documents)), key=lambda spu: spu.spec.id)
    counts = {each["name"]: each["status"]["objects"] for each in await client.list_objects("controller")}
    connected = {each["status"]["spuId"] for each in await client.list_objects("connection")}
    controllers = await controllers_of(client.network, spus)
    document = {
        "objects": counts,
        "connected": sorted(connected),
        "spus": documents,
        "controllers": {str(spu_id): controllers_document(told) for spu_id, told in sorted(controllers.items())},
    }
    show_documents(arguments, document, lambda: cluster_picture(counts, spus, connected, controllers))


def _partition_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("partition", metavar="TOPIC/PARTITION", help="Partition to draw.")


async def _draw_partition(client: ScClient, arguments: argparse.Namespace) -> None:
    topic, number = named_partition(arguments.partition)
    if number is None:
        raise UsageError(f"{topic}: name one partition, such as {topic}/0")
    (segments,) = await client.describe_segments(topic, number, -1)
    described = (await client.describe_partitions([topic])).partitions
    partition = next((each for each in described if each.partition == number), None)
    if partition is None:
        raise RefusedError(f"there is no partition {topic}/{number}")
    marks, notes = await _marks(client, Partition(topic, number))
    document = partition_document(partition) | {
        "segments": segments_document(segments)["segments"],
        "marks": marks,
        "notes": notes,
    }
    show_documents(arguments, document, lambda: partition_picture(partition, segments, marks, notes))


async def _marks(client: ScClient, partition: Partition) -> tuple[Marks, list[str]]:
    """Returns the committed offsets of groups, and notes about what could not be found out.

    If SPUs do not respond, the rest of the partition is drawn nevertheless.
    """
    spus = SpuClient(client.network, client.addresses, SC)
    try:
        with trio.fail_after(SECONDS_MAX):
            groups = GroupClient(spus)
            committed = await groups.committed([each.id for each in await groups.listed([], [CLASSIC, CONSUMER])])
    except (RefusedError, UnreachableError) as error:
        return {}, [f"the groups that read the partition are unknown: {error}"]
    except trio.TooSlowError:
        return {}, [f"the groups that read the partition are unknown: not all SPUs responded within {SECONDS_MAX:g} s"]
    finally:
        spus.close()
    marks: Marks = {}
    notes = []
    for group, progress in committed.items():
        if isinstance(progress, RefusedError):
            notes.append(f"the offset of group {group} is unknown: {progress}")
            continue
        here = [each.committed for each in progress if each.partition == partition and each.committed is not None]
        if here:
            marks[group] = here[0]
    return marks, notes


COMMANDS = {
    "cluster": Command("draw cluster", no_options, _draw_cluster, is_watchable=True),
    "partition": Command("draw partition", _partition_options, _draw_partition, is_watchable=True),
}
