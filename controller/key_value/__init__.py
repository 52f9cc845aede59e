"""The store of the SC's objects: compare-and-set, an ordered watch, leases. Knows nothing of the objects."""
