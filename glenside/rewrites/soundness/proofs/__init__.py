"""Rules proved for all sizes."""
