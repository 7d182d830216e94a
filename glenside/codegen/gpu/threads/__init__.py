"""Products of any kind on a device's threads."""
