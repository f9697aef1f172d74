"""A vault that adapters write to, its principals, and a look into every file of it."""

import pytest

from vault import Principal, Vault


@pytest.fixture
def vault(place):
    # NORMAL: what these tests check does not depend on the power; tests/crash runs with FULL.
    with Vault.create(place, settings={"synchronous": "NORMAL"}) as opened:
        yield opened


@pytest.fixture
def principal():
    """A principal of the tenant that the tests live in."""

    def made(subject="alice", *roles, tenant="acme"):
        return Principal(tenant=tenant, subject=subject, roles=frozenset(roles or ("agent",)))

    return made


@pytest.fixture
def alice(vault, principal):
    return vault.access(principal("alice"))


@pytest.fixture
def officer(vault, principal):
    return vault.access(principal("dpo", "privacy_officer"))


@pytest.fixture
def files_with(place):
    """The names of all files of the vault in which a text stands in clear."""

    def found(text):
        needle = text.encode() if isinstance(text, str) else text
        files = [path for path in place.rglob("*") if path.is_file()]
        assert files
        return sorted(str(path.relative_to(place)) for path in files if needle in path.read_bytes())

    return found
