"""The pure decisions of leaders and followers: no Trio, clock, disk or log; imports nothing else of the SPU."""
