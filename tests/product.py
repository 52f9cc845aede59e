"""The packages of the product, in the order of their layers, for tests that read its sources."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "protocol",
    "runtime",
    "security",
    "cluster",
    "storage",
    "server",
    "broker",
    "controller",
    "client",
    "trigger",
    "pipeline",
    "cli",
    "testing",
)
