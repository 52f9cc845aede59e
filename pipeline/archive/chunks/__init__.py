"""Chunks of records as Parquet files: written by tasks, read by tasks and as frames of Spark."""
