"""Products on matrix units that take operands from registers, warp by warp."""
