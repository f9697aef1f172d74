"""Pure decisions: from values to values, no I/O, no clock, no randomness; each carries its reasons."""
