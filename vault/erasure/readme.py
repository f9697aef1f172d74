"""What stands in the README.txt of a person's export."""

from __future__ import annotations

from typing import Final

README: Final = """\
What is kept about you
======================

This file holds what a session vault keeps about one person: whom it is about
and when it was made is in manifest.json. It was taken from the vault and
opened; whoever has this file can read all of it. Keep it safe.

Nothing but a program for zip files and a text editor is needed to read it.
A file whose name ends in .json holds one JSON value; in a file that ends in
.jsonl every line is a JSON value of its own. Times are in UTC.

sessions.json     your sessions: title, labels, times, state; "fork" and
                  "shared_through" say what one shares with another
sessions/         the events of each session, one a line, in their order. An
                  event has a "payload" (JSON), or "raw" (text), or
                  "raw_base64" (bytes), or "file": its payload is that file
payloads/         payloads that are too large for a line, by the event's id
memories.jsonl    memories, summaries, embeddings and caches, every version
artifacts.jsonl   files that were kept, every version; "file" is its content
artifacts/        these contents
lineage.json      what each thing was made from: "id" was made from "from"
retention.json    why each thing is still kept, and when it goes
held_back.json    what is kept about you and NOT in this file, with the
                  reason; "part" is true when the rest of it is here
manifest.json     every file here with its size in bytes and its SHA-256
manifest.sig      who signed the manifest: a C2SP signed note (Ed25519) of
                  the vault named there, over the manifest's SHA-256
"""
