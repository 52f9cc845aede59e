"""The loop of the SC: reads events, asks the controllers, and carries out their actions. May import partitions, topics,
spus and all that these import.
"""
