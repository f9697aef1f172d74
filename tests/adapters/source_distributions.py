"""The frameworks' own tests, from their source distributions, kept outside of the repository."""

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def unpacked(project: str, place: Path) -> Path:
    """The source distribution of the installed version of a project, in a directory; its root there."""
    with tarfile.open(_fetched(project)) as archive:
        archive.extractall(place, filter="data")
    (root,) = place.glob(f"{project.replace('-', '_')}-*")
    return root


def _fetched(project: str) -> Path:
    """The archive; from the index unless it is kept already."""
    version = importlib.metadata.version(project)
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-session-vault" / "suites"
    archive = kept / f"{project.replace('-', '_')}-{version}.tar.gz"
    if not archive.exists():
        kept.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        flags = ["--no-binary", ":all:", "--no-deps", "--no-build-isolation"]
        # Several tests may want it at once: it takes its name only when it is complete.
        with tempfile.TemporaryDirectory(dir=kept) as fresh:
            wanted = f"{project}=={version}"
            subprocess.run([*command, *flags, "--dest", fresh, wanted], check=True, timeout=240)
            (found,) = Path(fresh).iterdir()
            found.replace(archive)
    return archive
