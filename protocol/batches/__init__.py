"""Record batches: headers, records, checks, compression. Pure."""
