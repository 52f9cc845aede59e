"""What both servers stand on: the four seams (network, files, wall clock, chance), logs and settings."""
