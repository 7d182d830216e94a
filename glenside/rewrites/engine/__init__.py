"""What grows an e-graph: loading, types, steps within limits, saturation, reading it out."""
