"""Shows what an archive has, and removes files that do not count. Needs no Spark."""
