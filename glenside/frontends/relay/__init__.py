"""Relay text in: :func:`import_relay` reads what TVM up to 0.16 printed into access patterns."""

from glenside.frontends.relay.importer import import_relay, seeded_arrays

__all__ = ["import_relay", "seeded_arrays"]
