"""What both kinds of groups share: settings, sessions, records, output. Pure; imports nothing else of the groups."""
