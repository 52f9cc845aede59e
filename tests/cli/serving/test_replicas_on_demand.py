from collections.abc import Mapping

import trio

from tailrace.cli.serving.replicas_on_demand import ReplicasOnDemand
from tailrace.controller.state.actions import KeepReplica
from tailrace.controller.triggers.kept_replicas import KeptReplicas
from tailrace.runtime.network import Address

SC = Address("127.0.0.1", 9003)


class RecordingReplicas(KeptReplicas):
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self) -> None:
        self.asked.append("run")
        await trio.sleep_forever()

    def keep(self, wanted: KeepReplica) -> None:
        self.asked.append(f"keep {wanted.replica}")

    def drop(self, trigger: str, replica: str) -> None:
        self.asked.append(f"drop {replica}")

    def states(self, trigger: str) -> Mapping[str, str]:
        return {"replica1": "running"}

    async def stop(self) -> None:
        self.asked.append("stop")
        await trio.lowlevel.checkpoint()


def wanted(number: int) -> KeepReplica:
    return KeepReplica("bill", f"replica{number}", 1, None)


async def test_replicas_start_when_the_sc_serves_and_none_starts_after_a_stop(nursery: trio.Nursery) -> None:
    made: list[Address] = []
    replicas = RecordingReplicas()

    def make(controller: Address) -> KeptReplicas:
        made.append(controller)
        return replicas

    on_demand = ReplicasOnDemand(make, nursery)
    on_demand.keep(wanted(1))
    on_demand.keep(wanted(2))
    on_demand.drop("bill", "replica2")
    assert on_demand.states("bill") == {}
    assert not made
    on_demand.on_controller(SC)
    on_demand.keep(wanted(3))
    on_demand.drop("bill", "replica3")
    assert made == [SC]
    await on_demand.stop()
    on_demand.keep(wanted(4))
    assert on_demand.states("bill") == {"replica1": "running"}
    assert [each for each in replicas.asked if each != "run"] == [
        "keep replica1",
        "keep replica3",
        "drop replica3",
        "stop",
    ]


async def test_nothing_is_loaded_without_a_trigger(nursery: trio.Nursery) -> None:
    def make(controller: Address) -> KeptReplicas:
        raise AssertionError

    on_demand = ReplicasOnDemand(make, nursery)
    on_demand.on_controller(SC)
    on_demand.drop("bill", "replica1")
    await on_demand.stop()
