"""Watches an SPU group while it is scaled, and reports the progress."""

import trio

from tailrace.cli.options.sc_options import objects_in
from tailrace.cli.output.progress import Progress
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.controller.objects.objects import Partition, Spu, SpuGroup, SpuGroupResolution, Topic

from .scaling_progress import ScalingProgress, progress_of, sentences

LOOK_SECONDS = 0.5
LOOKS_BEFORE_STUCK = 4
"""How many looks must show no progress before the command gives up: a status may be older than the change."""


async def look_at_group(client: ScClient, name: str) -> ScalingProgress:
    """Asks the SC how far the group is. Raises RefusedError if the group is gone or Invalid."""
    (group,) = [
        each
        for each in objects_in("spu-group", await client.list_objects("spu-group", [name]))
        if isinstance(each, SpuGroup)
    ]
    if group.status.resolution is SpuGroupResolution.INVALID:
        raise RefusedError(f"SPU group {name} is Invalid: {group.status.reason}")
    spus = [each for each in objects_in("spu", await client.list_objects("spu")) if isinstance(each, Spu)]
    topics: list[Topic] = []
    partitions: list[Partition] = []
    if progress_of(group, spus, (), ()).leaving:
        topics = [each for each in objects_in("topic", await client.list_objects("topic")) if isinstance(each, Topic)]
        found = objects_in("partition", await client.list_objects("partition"))
        partitions = [each for each in found if isinstance(each, Partition)]
    return progress_of(group, spus, topics, partitions)


async def wait_for_group(client: ScClient, name: str, seconds: float) -> None:
    """Waits until the group is as its spec says, and shows the progress. Raises RefusedError if it stays otherwise."""
    progress = await look_at_group(client, name)
    most = _left(progress)
    bar = Progress(most, wanted=True, doing=f"scaling {name}", amount=lambda count: f"{count} steps")
    looks_without_change = 0
    deadline = trio.current_time() + seconds
    try:
        while not progress.is_done:
            if progress.is_stuck and looks_without_change >= LOOKS_BEFORE_STUCK:
                raise RefusedError("; ".join(sentences(progress)))
            if trio.current_time() >= deadline:
                raise RefusedError(_unfinished(progress, seconds))
            before = _left(progress)
            await trio.sleep(LOOK_SECONDS)
            progress = await look_at_group(client, name)
            most = max(most, _left(progress))
            looks_without_change = looks_without_change + 1 if _left(progress) == before else 0
            bar.move_to(most - _left(progress), most)
    finally:
        bar.clear()


def _left(progress: ScalingProgress) -> int:
    """Counts what is left: replicas to move, SPUs to stop and SPUs to start."""
    return progress.held + len(progress.leaving) + len(progress.starting)


def _unfinished(progress: ScalingProgress, seconds: float) -> str:
    waiting = sentences(progress)
    if progress.starting:
        ids = ", ".join(map(str, progress.starting[:10]))
        waiting.append(f"not online yet: SPU {ids}")
    waiting = waiting or ["the last SPUs are being stopped"]
    return f"SPU group {progress.group} is not scaled after {seconds:g} s: {'; '.join(waiting)}"
