"""`tailrace draw …`: pictures of a cluster and of a partition. May import clients, options, output and objects."""
