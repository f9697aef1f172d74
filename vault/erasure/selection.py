"""What an erasure names: exactly one thing, and by it nothing that somebody did not mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vault.errors import InvalidInput, NotFound
from vault.model import check_name, parse_id
from vault.policy.plan import Selector, refuse_selector

if TYPE_CHECKING:
    from vault.sealing.uses import TenantKeys

KINDS: Final = ("session", "subject", "memory", "artifact", "label", "tenant")
NOTHING: Final = "there is nothing of that to erase"


def chosen(*given: Any) -> tuple[str, Any]:
    """The one kind and value that were given, one for each of ``KINDS``.

    Raises:
        InvalidInput: none, or several.
    """
    found = [(kind, value) for kind, value in zip(KINDS, given, strict=True) if value is not None]
    if len(found) != 1:
        raise InvalidInput(f"an erasure names one thing: one of {', '.join(KINDS)}")
    return found[0]


def check_subject(subject: str) -> None:
    """Refuse what names no person.

    Raises:
        InvalidInput: it does not.
    """
    refuse_selector(check_name(subject, "a subject"))


def selector(tenant: TenantKeys, kind: Any, value: Any) -> Selector:
    """What stands for a kind and value: an id or a blind index.

    Raises:
        InvalidInput: it names nothing, or everything.
        NotFound: it is no id of this kind.
    """
    if kind == "tenant":
        return Selector("tenant", tenant.tenant_id)
    if kind == "label":
        if not isinstance(value, tuple | list) or len(value) != len(("name", "value")):
            raise InvalidInput("a label is a pair: its name and its value")
        name, text = (check_name(part, "a label") for part in value)
        refuse_selector(name)
        refuse_selector(text)
        return Selector("label", tenant.blind("label", name, text))
    if not isinstance(value, str):
        raise InvalidInput(f"a {kind} is named by a string")
    refuse_selector(value)
    if kind == "subject":
        return Selector("subject", tenant.owner(check_name(value, "a subject")))
    prefix = {"session": "ses", "memory": "mem", "artifact": "art"}[kind]
    raw = parse_id(prefix, value)
    if raw is None:
        raise NotFound(NOTHING)
    return Selector(kind, raw)
