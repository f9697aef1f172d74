"""The fixtures of LangGraph's own tests with the vault in place of every other checkpointer.

It takes the place of the suite's own conftest, which needs servers.
"""

from uuid import UUID

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.memory import InMemoryStore

from vault import Principal, Vault
from vault.adapters.langgraph import VaultSaver

#: The suite's own classes that no schema of its graphs names.
CLASSES = [("tests.test_interruption", "Decision"), ("tests.test_interruption", "DecisionData")]
#: What `test_checkpoint_metadata` looks for, which other checkpointers copy with everything else.
KEYS = [f"test_config_{number}" for number in range(1, 5)]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def deterministic_uuids(mocker):
    made = (UUID(f"00000000-0000-4000-8000-{number:012}", version=4) for number in range(10_000))
    return mocker.patch("uuid.uuid4", side_effect=made)


@pytest.fixture(params=["sync", "async", "exit"])
def durability(request):
    return request.param


@pytest.fixture(params=["memory"])
def cache():
    return InMemoryCache()


@pytest.fixture(params=["memory"])
def sync_store():
    return InMemoryStore()


@pytest.fixture(params=["memory"])
def async_store():
    return InMemoryStore()


@pytest.fixture
def _saver(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    serde = JsonPlusSerializer(allowed_msgpack_modules=CLASSES)
    with Vault.create(tmp_path / "vault", settings={"synchronous": "NORMAL"}) as vault:
        yield VaultSaver(
            vault.access(Principal(tenant="acme", subject="alice")), serde=serde, metadata_keys=KEYS
        )


@pytest.fixture(params=["vault"])
def sync_checkpointer(_saver):
    return _saver


@pytest.fixture(params=["vault"])
def async_checkpointer(_saver):
    return _saver
