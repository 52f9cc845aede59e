"""What every process needs: the four seams (network, files, wall clock, chance), settings, logs and start-up."""
