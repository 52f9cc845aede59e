"""`tailrace produce` and `tailrace consume`, with the formats of records that both use. Contains only rooms."""
