"""Reads batches from the copies of a log on other SPUs. May import replicas, peers and the pure replication core."""
