"""Mappings of products to devices: constraint problems, solved, and ranked by predicted time."""
