"""Other processes on the same machine: which one has a port or a lock, and what killed ones have left behind."""
