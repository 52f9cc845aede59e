"""The four seams (network, files, wall clock, chance) and what a process needs at start-up."""
