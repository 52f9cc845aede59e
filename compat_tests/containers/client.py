"""Runs stock clients on the host or in a container."""

import json
import sys
from pathlib import Path
from typing import Any

from .namespaces import Namespace, programs

PROGRAM = str(Path(__file__).with_name("stock_client.py"))


class Client:
    """Runs `stock_client.py` in the client's namespace."""

    def __init__(self, place: Namespace, library: str, bootstrap: str) -> None:
        self._place = place
        self._library = library
        self._bootstrap = bootstrap

    def __call__(self, verb: str, *more: object) -> Any:
        words = [self._library, verb, self._bootstrap, *map(str, more)]
        done = self._place.run([sys.executable, PROGRAM, *words], programs())
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return json.loads(done.stdout)

    def brokers(self) -> dict[int, str]:
        return {int(number): address for number, address in self("brokers").items()}

    def consume(self, topic: str, partitions: int, count: int) -> dict[int, list[int]]:
        found = self("consume", topic, partitions, count)
        return {int(partition): values for partition, values in found.items()}
