"""Record batches: their headers, records, checks and compression. Pure."""
