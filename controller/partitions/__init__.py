"""Decisions about partitions: leaders, replicas, shelves. Pure but for `election_updater`. May import state, spus."""
