"""The shipped documents are found wherever the package runs from: checkout, editable install, wheel.

Nothing is downloaded: the environments made here see the packages of the one that runs the tests.
"""

import json
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("policies", "migrations")

pytestmark = pytest.mark.slow

FIND = """
import json, vault.data as data
found = {"module": data.__file__, "policies": str(data.policies()), "migrations": str(data.migrations())}
print(json.dumps(found))
"""


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(place: Path, *source: object) -> dict[str, Path]:
    """Install the source in a new environment at `place`, and ask there where the documents are."""
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip()
    )
    # Entries of a .pth file come last, and .pth files found through one are not read: an editable install of
    # the package in the running environment stays out of sight.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"),
        *("--no-build-isolation", "--no-warn-script-location", *source),
        cwd=place,
    )
    found = json.loads(run(python, "-I", "-c", FIND, cwd=place))
    return {name: Path(path) for name, path in found.items()}


def names(directory: Path) -> set[str]:
    files = (path for path in directory.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(directory).as_posix() for path in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of this checkout, and the wheel that is built from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return out


def test_a_checkout_finds_the_documents_beside_the_package():
    found = json.loads(run(sys.executable, "-c", FIND, cwd=ROOT))
    assert [Path(found[name]) for name in DOCUMENTS] == [ROOT / name for name in DOCUMENTS]


def test_an_editable_install_finds_the_documents_of_its_checkout(tmp_path: Path):
    found = installed(tmp_path, "--editable", ROOT)
    assert [found[name] for name in DOCUMENTS] == [ROOT / name for name in DOCUMENTS]
    assert not list(tmp_path.rglob("_data")), "a copy in an editable install would go stale"


def test_an_installed_wheel_brings_the_documents_with_it(built: Path, tmp_path: Path):
    (wheel,) = built.glob("*.whl")
    found = installed(tmp_path, wheel)
    assert found["module"].is_relative_to(tmp_path)
    for name in DOCUMENTS:
        assert found[name] == found["module"].parent / "_data" / name
        assert names(found[name]) == names(ROOT / name) != set()


def test_the_wheel_holds_the_package_and_nothing_beside_it(built: Path):
    (wheel,) = built.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0] for name in held} == {"vault", "agent_session_vault-0.1.0.dist-info"}
    assert {f"vault/{name}" for name in names(ROOT / "vault")} <= held


def test_the_sdist_holds_what_it_takes_to_review_build_and_test(built: Path):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    for directory in ("vault", "policies", "migrations", "tests", "docs"):
        assert {f"{directory}/{name}" for name in names(ROOT / directory)} <= held
    assert {"LICENSE", "Makefile", "README.md", "constraints.txt", "pyproject.toml"} <= held
