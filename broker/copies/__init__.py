"""Requests to other SPUs, and reading batches from their copies of a log.

May import replicas, peers and the pure replication core.
"""
