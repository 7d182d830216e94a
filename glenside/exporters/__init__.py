"""Programs out: other forms in which an access-pattern program can be written down."""
