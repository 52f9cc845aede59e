"""Decisions of leaders and followers. Pure: no Trio, clock, disk or log; imports nothing else of the SPU."""
