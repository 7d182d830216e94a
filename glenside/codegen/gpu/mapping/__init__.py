"""How products are spread over a device: what is said of every kind of mapping."""
