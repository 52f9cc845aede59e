"""Runs replicas of deployed triggers in `tailrace up`. Their code is loaded for the first trigger."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from tailrace.controller.state.actions import KeepReplica
from tailrace.runtime.network import Address

if TYPE_CHECKING:
    from tailrace.controller.triggers.bounded_log import LogPart
    from tailrace.controller.triggers.kept_replicas import KeptReplicas


class ReplicasOnDemand:
    """Starts replicas when the SC serves, because a replica asks it first of all."""

    def __init__(self, make: "Callable[[Address], KeptReplicas]", nursery: trio.Nursery) -> None:
        """`make` loads and makes what runs replicas, for an SC at a public address. It runs in `nursery`."""
        self._make = make
        self._nursery = nursery
        self._replicas: KeptReplicas | None = None
        self._waiting: dict[tuple[str, str], KeepReplica] = {}
        self._controller: Address | None = None
        self._is_stopping = False

    def on_controller(self, public: Address) -> None:
        """Starts the replicas that wait for the SC."""
        self._controller = public
        for wanted in self._waiting.values():
            self.keep(wanted)
        self._waiting.clear()

    def keep(self, wanted: KeepReplica) -> None:
        if self._controller is None:
            self._waiting[wanted.trigger, wanted.replica] = wanted
        elif not self._is_stopping:
            self._loaded().keep(wanted)

    def drop(self, trigger: str, replica: str) -> None:
        self._waiting.pop((trigger, replica), None)
        if self._replicas is not None:
            self._replicas.drop(trigger, replica)

    def forget(self, trigger: str) -> None:
        if self._controller is not None:
            self._loaded().forget(trigger)

    def states(self, trigger: str) -> Mapping[str, str]:
        return {} if self._replicas is None else self._replicas.states(trigger)

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> "LogPart | None":
        return self._loaded().read_log(trigger, replica, after, bytes_max)

    async def stop(self) -> None:
        """Stops all replicas cleanly, and starts none any more."""
        self._is_stopping = True
        if self._replicas is not None:
            await self._replicas.stop()

    def _loaded(self) -> "KeptReplicas":
        if self._replicas is None:
            assert self._controller is not None, "nothing is asked before the SC serves"
            self._replicas = self._make(self._controller)
            self._nursery.start_soon(self._replicas.run)
        return self._replicas
