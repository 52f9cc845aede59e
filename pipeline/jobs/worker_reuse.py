"""Saves Python workers of Spark from work before and after each task that takes longer than a short task.

Before each task PySpark calls `importlib.invalidate_caches`. For each package that was imported from a zip, Python has
a finder, and each finder then reads the list of its whole zip. PySpark itself comes as such a zip, and a large jar is
on the path too, so that this takes 0.2 s of a core.

After each task PySpark collects garbage. Python then visits all objects of all modules, which takes 0.02 s.
"""

import gc
import sys
import zipimport
from collections.abc import MutableMapping
from typing import Any


def drop_zip_finders(finders: MutableMapping[str, Any] | None = None) -> None:
    """Removes the finders of zips, so that there is nothing to read again. Tasks call it before anything else.

    The next import makes a finder again, with the list that Python has kept. No zip changes while a worker uses it,
    because Spark does not replace files that it has given to workers.
    """
    known: MutableMapping[str, Any] = sys.path_importer_cache if finders is None else finders
    for path, finder in list(known.items()):
        if isinstance(finder, zipimport.zipimporter):
            del known[path]


def freeze_modules() -> None:
    """Makes collections of garbage skip all objects that this process has now. Tasks call it at their end.

    Only the first call has an effect. By then, the modules are imported that the following tasks need.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
