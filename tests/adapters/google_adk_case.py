"""What the tests of the Google ADK adapter share: events, three services, and a model without a network."""

from collections.abc import AsyncGenerator
from typing import NamedTuple

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.genai import types
from pydantic import PrivateAttr

from vault.adapters.google_adk import VaultArtifactService, VaultMemoryService, VaultSessionService

APP = {"app_name": "app", "user_id": "u1"}


def content(text, role="user"):
    return types.Content(role=role, parts=[types.Part(text=text)])


def said(text="hello", **about):
    """An event; ``delta`` is what it changes of the state."""
    delta = about.pop("delta", {})
    about = {"invocation_id": "inv", "author": "user"} | about
    return Event(content=content(text), actions=EventActions(state_delta=delta), **about)


def file(text, media_type="text/csv"):
    return types.Part.from_bytes(data=text.encode(), mime_type=media_type)


def texts(session: Session) -> list[str]:
    return [event.content.parts[0].text for event in session.events if event.content]


class Services(NamedTuple):
    """What ADK keeps things in, for one principal."""

    sessions: VaultSessionService
    artifacts: VaultArtifactService
    memories: VaultMemoryService

    @classmethod
    def of(cls, access):
        return cls(VaultSessionService(access), VaultArtifactService(access), VaultMemoryService(access))

    def runner(self, agent, **about):
        return Runner(
            app_name=None if "app" in about else "app",
            agent=None if "app" in about else agent,
            session_service=self.sessions,
            artifact_service=self.artifacts,
            memory_service=self.memories,
            **about,
        )


class Scripted(BaseLlm):
    """A model that gives one prepared answer after the other; ``asked`` is what it was asked."""

    model: str = "scripted"
    _answers: list = PrivateAttr(default_factory=list)
    _asked: list = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, *answers):
        made = cls()
        made._answers = list(answers)
        return made

    @property
    def asked(self) -> list[str]:
        return ["\n".join(p.text or "" for c in one.contents for p in c.parts) for one in self._asked]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._asked.append(llm_request)
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            if stream:
                for word in answer.split():
                    yield LlmResponse(content=content(word, "model"), partial=True)
            yield LlmResponse(content=content(answer, "model"))
        else:
            name, arguments = answer
            call = types.Part.from_function_call(name=name, args=arguments)
            yield LlmResponse(content=types.Content(role="model", parts=[call]))


async def turn(runner, text, session_id="s1", **about):
    """All events of one turn."""
    about.setdefault("new_message", content(text))
    return [event async for event in runner.run_async(user_id="u1", session_id=session_id, **about)]
