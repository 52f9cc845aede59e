"""What all jobs on Spark share: the session, progress, results, code for executors, and errors in one sentence."""
