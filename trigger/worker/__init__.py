"""The program of a worker process: takes chunks of records, calls the handler, and reports what became of them."""
