"""The leader and follower roles of a replica: they connect the pure replication core with log, peers and controller.
May import replicas, peers and copies."""
