"""`tailrace transaction …`. May import clients, options and output."""
