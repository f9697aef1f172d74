"""The one door: every use case takes a Grant, and Grants are made only in ``access.door``."""
