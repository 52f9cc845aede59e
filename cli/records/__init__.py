"""`tailrace produce` and `tailrace consume`. May import clients, options and output."""
