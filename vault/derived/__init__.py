"""Derived items: memories, summaries, embeddings, artifacts, caches; each with where it came from."""
