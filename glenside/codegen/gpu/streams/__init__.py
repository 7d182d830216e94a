"""Large products on matrix units, operands brought by warps of their own."""
