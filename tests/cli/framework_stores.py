"""Databases as the frameworks write them, by their own classes, and what adapters read after an import."""

import asyncio
import contextlib
import sqlite3

from agents.extensions.memory.encrypt_session import EncryptedSession
from agents.memory import SQLiteSession
from google.adk.events.event import Event
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.sqlite import SqliteStore

from vault import Principal, Vault
from vault.adapters.google_adk_sessions import VaultSessionService
from vault.adapters.langgraph import VaultSaver
from vault.adapters.langgraph_store import VaultStore
from vault.adapters.openai_agents import VaultSession

TALK = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day."}]
USERS = ("users", "alice")
STRICT = JsonPlusSerializer(allowed_msgpack_modules=None)


def names(count):
    """What the conversations, threads, items or users of a store are called."""
    return [str(number) for number in range(count)]


def changed(path, statement):
    """A database after a statement; it is made when it is not there."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


# --------------------------------------------------------------------------------------------------- written


def openai(path="chats.db", key=None, count=2):
    """Conversations of two items each."""

    async def write():
        for name in names(count):
            store = SQLiteSession(name, path)
            await (store if key is None else EncryptedSession(name, store, key)).add_items(TALK)
            store.close()

    asyncio.run(write())
    return path


def at(name):
    """A configuration with what does not belong into a checkpoint."""
    return {"configurable": {"thread_id": name, "api_key": "sk-1"}}


def graph(saver):
    """A model that agrees."""
    made = StateGraph(MessagesState).add_node("model", lambda _: {"messages": [AIMessage("yes")]})
    return made.add_edge(START, "model").add_edge("model", END).compile(checkpointer=saver)


def langgraph(path="threads.db", key=None, count=2):
    """Threads of one turn each."""
    serde = STRICT
    if key is not None:
        serde = EncryptedSerializer.from_pycryptodome_aes(STRICT, key=key.encode())
    with contextlib.closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        made = graph(SqliteSaver(connection, serde=serde))
        for name in names(count):
            made.invoke({"messages": [HumanMessage("Hello.")]}, at(name))
    return path


def langgraph_store(path="items.db", count=2):
    """Items of one namespace."""
    with SqliteStore.from_conn_string(path) as store:
        store.setup()
        for name in names(count):
            store.put(USERS, name, {"text": f"tea {name}"}, ttl=60)
    return path


def adk(path="adk.db", kind="sqlite", count=2):
    """Users with a session of one event each."""

    async def write():
        if kind == "sqlite":
            service = SqliteSessionService(path)
        else:
            service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
        for user in names(count):
            place = {"app_name": "app", "user_id": user, "session_id": "s"}
            session = await service.create_session(**place, state={"user:name": user})
            said = types.Content(role="user", parts=[types.Part(text=f"Hello from {user}.")])
            await service.append_event(session, Event(author="user", content=said))
        if kind != "sqlite":
            await service.close()

    asyncio.run(write())
    return path


# ------------------------------------------------------------------------------------------------------ read


@contextlib.contextmanager
def reading(subject="owner"):
    """What somebody reaches in the vault at the default place."""
    with Vault.open("my.vault") as opened:
        yield opened.access(Principal(tenant="default", subject=subject))


def openai_there(subject="owner", count=2):
    """The items of each conversation."""
    with reading(subject) as access:
        return [asyncio.run(VaultSession(name, access).get_items()) for name in names(count)]


def langgraph_there(subject="owner", count=2):
    """The messages of each thread."""
    with reading(subject) as access:
        made = graph(VaultSaver(access))
        states = [made.get_state(at(name)).values for name in names(count)]
        return [[message.content for message in state.get("messages", [])] for state in states]


def langgraph_store_there(subject="owner", count=2):
    """The text of each item."""
    with reading(subject) as access:
        store = VaultStore(access)
        return [item and item.value["text"] for item in (store.get(USERS, name) for name in names(count))]


def adk_there(subject="owner", count=2):
    """What each user said first, and what is known of them; None for who is not there."""
    with reading(subject) as access:
        service = VaultSessionService(access)
        places = [{"app_name": "app", "user_id": user, "session_id": "s"} for user in names(count)]
        found = [asyncio.run(service.get_session(**place)) for place in places]
        return [one and (one.events[0].content.parts[0].text, one.state["user:name"]) for one in found]


#: How each store is written, how our adapter reads it, and what it reads under a name.
STORES = {
    "openai-sqlite": (openai, openai_there, lambda _: TALK),
    "langgraph-sqlite": (langgraph, langgraph_there, lambda _: ["Hello.", "yes"]),
    "langgraph-store-sqlite": (langgraph_store, langgraph_store_there, lambda name: f"tea {name}"),
    "adk-sqlite": (adk, adk_there, lambda name: (f"Hello from {name}.", name)),
}
