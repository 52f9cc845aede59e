"""Where the SC keeps its objects: one small interface, and the stores behind it."""
