"""The loop of the SC: reads events, asks the controllers, carries out their actions. May import every decision room."""
