"""What makes files that are checked in, and the documentation."""
