"""Views: detectors, pseudonyms, and masking over JSON; what a level means is decided in ``vault.policy``."""
