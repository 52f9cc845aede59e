"""`tailrace pipeline …`: jobs on Spark. May import clients, options and output, and the package `pipeline`."""
