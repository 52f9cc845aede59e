"""Jobs on Spark, and what they share.

They are clients of a cluster, or read the files of SPUs. No server imports them.
"""
