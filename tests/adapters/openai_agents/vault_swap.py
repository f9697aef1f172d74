"""A pytest plugin for the SDK's own tests: their stores become conversations in a vault.

``--swap sqlite`` puts one in place of ``agents.SQLiteSession``, ``--swap simple`` in place of the list-backed
session that the SDK's tests define for themselves. One vault serves the whole process; a database file of a
test is an owner in it, and so is each database in memory.
"""

import importlib
import tempfile
import uuid
from pathlib import Path

from vault import Principal, Vault
from vault.adapters.openai_agents import VaultSession

_opened = None
_owners = {}


def pytest_addoption(parser):
    parser.addoption("--swap", choices=["sqlite", "simple"])


def pytest_configure(config):
    global _opened  # noqa: PLW0603 - one vault for the process, closed with it
    place = Path(tempfile.mkdtemp(prefix="suite-")) / "vault"
    _opened = Vault.create(place, settings={"synchronous": "NORMAL"})
    if config.getoption("--swap") == "sqlite":
        _swap_sqlite()
    else:
        _swap_simple()


def pytest_unconfigure():
    if _opened is not None:
        _opened.close()


def _access(subject):
    return _opened.access(Principal(tenant="suite", subject=subject))


class LikeSQLite(VaultSession):
    """Made as ``SQLiteSession`` is: the same file is the same store, one in memory is nobody else's."""

    def __init__(
        self,
        session_id,
        db_path=":memory:",
        sessions_table="agent_sessions",
        messages_table="agent_messages",
        session_settings=None,
    ):
        if str(db_path) == ":memory:":
            owner = str(uuid.uuid4())
        else:
            store = (Path(db_path).resolve(), sessions_table, messages_table)
            owner = _owners.setdefault(store, str(uuid.uuid4()))
        super().__init__(session_id, _access(owner), session_settings=session_settings)


class LikeSimple(VaultSession):
    """Made as the list-backed session of the SDK's tests is, which look at its list."""

    session_settings = None
    _ignore_ids_for_matching = False

    def __init__(self, session_id="test", history=None):
        VaultSession.__init__(self, session_id, _access(str(uuid.uuid4())))
        self.session_settings = None
        if history:
            self._kept.add(list(history))

    @property
    def _items(self):
        return [event.payload for event in self._kept.newest(None)]

    @property
    def saved_items(self):
        return self._items


def _swap_sqlite():
    agents = importlib.import_module("agents")
    # What builds on the SDK's own class, or looks for it, has to bind it first.
    for name in ("advanced_sqlite_session", "encrypt_session"):
        importlib.import_module(f"agents.extensions.memory.{name}")
    agents.SQLiteSession = agents.memory.SQLiteSession = LikeSQLite


def _swap_simple():
    # The tests derive from this class, so it stays and becomes the other one: every attribute is replaced.
    theirs = importlib.import_module("tests.utils.simple_session").SimpleListSession
    for ours in (VaultSession, LikeSimple):
        for name, value in vars(ours).items():
            if name not in {"__dict__", "__weakref__", "__module__", "__qualname__"}:
                setattr(theirs, name, value)
