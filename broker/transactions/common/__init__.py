"""What the coordinator of transactions shares with its hosting: records, settings, counters and the work of markers.

Pure; imports nothing else of transactions.
"""
