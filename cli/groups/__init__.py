"""`tailrace group …`. May import clients, options and output."""
