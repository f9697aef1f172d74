"""Where the shipped documents are looked for; that they are found when installed: tests/architecture."""

import tomllib
from pathlib import Path

import pytest

from vault import data


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = tmp_path / "vault"
    package.mkdir()
    return package


def make(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def test_documents_inside_the_package_are_found_as_in_a_wheel(package: Path):
    inside = make(package / "_data" / "policies")
    assert data._shipped("policies", package) == inside


def test_documents_beside_the_package_are_found_as_in_a_checkout(package: Path):
    beside = make(package.parent / "policies")
    (package.parent / "pyproject.toml").touch()
    assert data._shipped("policies", package) == beside


def test_documents_inside_the_package_win_over_those_beside_it(package: Path):
    inside = make(package / "_data" / "policies")
    make(package.parent / "policies")
    (package.parent / "pyproject.toml").touch()
    assert data._shipped("policies", package) == inside


def test_a_directory_beside_an_installed_package_is_not_taken_for_ours(package: Path):
    make(package.parent / "policies")
    with pytest.raises(FileNotFoundError, match="the shipped policies are missing"):
        data._shipped("policies", package)


@pytest.mark.parametrize("name", ["policies", "migrations"])
def test_missing_documents_are_named_with_what_to_do_and_without_a_path(package: Path, name: str):
    (package.parent / "pyproject.toml").touch()
    with pytest.raises(FileNotFoundError) as caught:
        data._shipped(name, package)
    assert str(caught.value) == f"the shipped {name} are missing; install agent-session-vault again"


def test_this_installation_has_both_kinds_of_documents():
    assert (data.policies() / "default.toml").is_file()
    assert (data.migrations() / "sqlite").is_dir()


def test_the_default_policy_is_a_document_in_which_everything_is_finite():
    """D1"""
    document = tomllib.loads((data.policies() / "default.toml").read_text(encoding="utf-8"))
    assert (document["version"], document["name"]) == (1, "default")
    assert document["retention"]
    for rule in document["retention"]:
        assert rule["match"]["kind"], rule["id"]
        days = int(rule["expire_after"].removesuffix("d"))
        assert 0 <= int(rule["keep_min"].removesuffix("d")) <= days, rule["id"]
        assert 0 < days <= 36_500, rule["id"]
    assert len({rule["id"] for rule in document["retention"]}) == len(document["retention"])
