import pytest
from public_sc import ADDRESS, public_sc
from simulation.files import SimulatedFiles

from tailrace.cli.triggers.replica_process import ReplicaSettings, brokers_of, serve_replica
from tailrace.client.server_connection import RefusedError
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.runtime.process import ServerStop
from tailrace.runtime.seams import Seams
from tailrace.runtime.wall_clock import SystemClock
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.replica.replica_setup import ReplicaServers


async def test_a_trigger_that_is_not_deployed_is_refused() -> None:
    async with public_sc() as sc:
        settings = ReplicaSettings(ReplicaServers([ADDRESS]), None, "replica1", "info", False, False, None, "billing")
        seams = Seams(sc.network, SimulatedFiles(), SystemClock(), RandomChance())
        with pytest.RaisesGroup(pytest.RaisesExc(RefusedError, match="there is no trigger billing")):
            await serve_replica(settings, seams, ServerStop())


def test_the_brokers_of_a_configuration_are_addresses() -> None:
    config = TriggerConfig(name="billing", topic="orders", group="billing", brokers=("a:1", "b:2"))
    assert brokers_of(config) == [Address("a", 1), Address("b", 2)]
