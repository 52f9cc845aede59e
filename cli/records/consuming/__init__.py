"""`tailrace consume`: what to read, from whom, as a member of a group or alone. May import `formats`."""
