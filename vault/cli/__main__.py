"""``python -m vault.cli``: the command line without its installed name."""

from __future__ import annotations

import sys

from vault.cli import main

sys.exit(main())
