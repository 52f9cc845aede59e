"""The assignors that members of a consumer group can choose, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from .assignor import Assignor
from .range_assignor import assign_ranges
from .uniform_assignor import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
