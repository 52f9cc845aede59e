"""`tailrace produce`: where records come from, their partitions and their batches. May import `formats`."""
