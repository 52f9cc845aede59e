"""The rack of this SPU, which its registration determines.

The Streaming Controller places replicas by it. If the SPU was started with another rack, a warning is logged.
"""

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime.logs import FilteringBoundLogger


class RegisteredRack:
    def __init__(self, given: str | None, configs: BrokerConfigs, logger: FilteringBoundLogger) -> None:
        """`given` is the rack with which the SPU was started."""
        self._given = given
        self._configs = configs
        self._logger = logger
        self._registered = given

    def on_registered(self, rack: str | None) -> None:
        """Uses the rack. The controller sends it repeatedly, so only a change is logged."""
        self._configs.use_rack(rack)
        if rack != self._registered and self._given not in (None, rack):
            self._logger.warning("rack_ignored", given=self._given, registered=rack)
        self._registered = rack
