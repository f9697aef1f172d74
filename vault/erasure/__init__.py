"""Retention and erasure: what is due, what is held, what goes and with what, and the proof of it."""
