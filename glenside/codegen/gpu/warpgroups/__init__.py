"""Products on matrix units that warpgroups share."""
