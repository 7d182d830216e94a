"""Which way to say it: cost models and extractors."""
