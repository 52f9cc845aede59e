"""Copies topics to Parquet files exactly once, and proves it.

Executors get the pure modules and the tasks with the job, so these import neither Trio nor `storage`.
"""
