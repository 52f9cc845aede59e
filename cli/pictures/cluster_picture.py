"""Draws a cluster: the Streaming Controller, the SPUs, their clients, and which SPU copies from which."""

from collections.abc import Mapping, Sequence, Set

from tailrace.cli.objects.spu_controllers import Controllers
from tailrace.cli.output.printing import plain
from tailrace.cli.output.tables import table
from tailrace.controller.objects.objects import Spu, SpuResolution
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_spu import DescribeSpuResponse

_STREAM = "----"
_NO_STREAM = " -  "


def cluster_picture(
    counts: Mapping[str, int], spus: Sequence[Spu], connected: Set[SpuId], controllers: Mapping[SpuId, Controllers]
) -> str:
    """Draws the cluster. `counts` are the objects of each kind; `connected` are the SPUs connected to the SC."""
    objects = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
    lines = [f"SC ({objects})"]
    for spu in spus:
        stream = _STREAM if spu.spec.id in connected else _NO_STREAM
        lines += ["   |", f"   +{stream} SPU {spu.spec.id}, {_spu_text(spu, controllers[spu.spec.id])}"]
        if spu.status.resolution is SpuResolution.ONLINE:
            lines += [f"   |       <---- clients at {each.host}:{each.port}" for each in spu.status.listeners]
    copying = {each: told for each, told in controllers.items() if isinstance(told, DescribeSpuResponse)}
    if not any(told.follower_controllers for told in copying.values()):
        return "\n".join(lines)
    return "\n".join(
        [
            *lines,
            "",
            "replicas that each SPU copies from others (! means that they are not linked):",
            "",
            _matrix(copying),
        ]
    )


def _spu_text(spu: Spu, controllers: Controllers) -> str:
    status = spu.status.resolution.value
    reason = f" ({plain(spu.status.reason)})" if spu.status.reason else ""
    if isinstance(controllers, str):
        return f"{status}{reason}"
    followed = sum(each.replicas for each in controllers.follower_controllers)
    return f"{status}{reason}: leads {controllers.leader_controllers}, follows {followed}"


def _matrix(copying: Mapping[SpuId, DescribeSpuResponse]) -> str:
    leaders = sorted({each.leader_id for told in copying.values() for each in told.follower_controllers})
    rows = []
    for spu_id, told in sorted(copying.items()):
        found = {each.leader_id: each for each in told.follower_controllers}
        cells = [found.get(leader) for leader in leaders]
        rows.append((f"SPU {spu_id}", *(each and f"{each.replicas}{'' if each.is_linked else ' !'}" for each in cells)))
    return table(("", *(f"FROM SPU {leader}" for leader in leaders)), rows)
