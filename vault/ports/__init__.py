"""Tiny protocols that use cases talk to and storage implements; each owns its error words."""
