"""Decisions about partitions: leaders, replicas, shelves. Pure except for `election_updater`. May import state and
spus.
"""
