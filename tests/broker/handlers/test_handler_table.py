"""The table that finds the handler of each API."""

import importlib

import pytest

from tailrace.broker import handlers
from tailrace.broker.spu_counters import KNOWN
from tailrace.server.handlers import SHARED


def test_every_api_that_an_spu_answers_is_in_one_table() -> None:
    assert handlers.MODULES.keys() | SHARED == KNOWN.keys()
    assert not handlers.MODULES.keys() & SHARED


@pytest.mark.parametrize("module", sorted(set(handlers.MODULES.values())))
def test_every_module_in_the_table_has_a_handler(module: str) -> None:
    assert callable(importlib.import_module(f"tailrace.broker.handlers.{module}").handle)
