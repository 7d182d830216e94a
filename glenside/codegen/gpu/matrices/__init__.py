"""Products of plain matrices on a device's threads."""
