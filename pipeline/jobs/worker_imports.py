"""Saves a Python worker of Spark from reading the lists of files in zips again before each task.

Before each task PySpark calls `importlib.invalidate_caches`. For each package that was imported from a zip, Python has
a finder, and each finder then reads the list of its whole zip. PySpark itself comes as such a zip, and a large jar is
on the path too, so that this takes 0.2 s of a core: more than the rest of a short task.
"""

import sys
import zipimport
from collections.abc import MutableMapping
from typing import Any


def drop_zip_finders(finders: MutableMapping[str, Any] | None = None) -> None:
    """Removes the finders of zips, so that there is nothing to read again.

    The next import makes a finder again, with the list that Python has kept. No zip changes while a worker uses it,
    because Spark does not replace files that it has given to workers.
    """
    known: MutableMapping[str, Any] = sys.path_importer_cache if finders is None else finders
    for path, finder in list(known.items()):
        if isinstance(finder, zipimport.zipimporter):
            del known[path]
