"""What a program runs on: targets, units and code generation."""
