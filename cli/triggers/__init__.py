"""`tailrace trigger …`: functions that run for every record of a stream. May import clients, options and output."""
