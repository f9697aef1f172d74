"""Other labels for a session that lives on: what finds, holds and binds it goes by them at once.

All of it is one transaction: the fact in the log, the sealed labels and their index, the terms. Whether a
hold stands on a label that is taken away is asked in it. Keys and data share one write lock, so no hold is
placed between that and the commit: it keeps what carried its label when it was placed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from vault.encoding import canonical_json
from vault.errors import Conflict, InvalidInput, Tampered
from vault.model import LABELS_MAX, NewEvent, check_name
from vault.policy import terms as retention
from vault.policy.rebinding import Labels, relabelled
from vault.sealing import rows
from vault.sealing.payload import seal
from vault.sessions.append import append
from vault.sessions.log import RELABELLED, due_hour, epoch_keys, open_about
from vault.sessions.read import verified_view
from vault.sessions.terms import Terms
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from vault.access.door import Grant
    from vault.erasure.service import Parts
    from vault.policy.rules import Policy
    from vault.ports.records import SessionRow, Transaction

#: Where the times at which labels came stand, beside the labels.
_SINCE: Final = "labelled_us"
_HELD: Final = "a legal hold names a label that this takes away; it stays until the hold is lifted"
_INDEX_CHANGED: Final = "a session's label index is not what its sealed labels say; run verify"


def labels_of(about: Mapping[str, Any]) -> Labels:
    """The labels in what is sealed beside a session or derived item, and since when it has them."""
    return Labels(about.get("labels", {}), about.get(_SINCE, {}))


def relabel(
    parts: Parts, grant: Grant, session: SessionRow, given: Mapping[str, str], removed: Collection[str]
) -> dict[str, str]:
    """Give a session labels and take some away; the labels that it has then.

    Raises:
        As ``Session.relabel``.
    """
    log, session_id = parts.log, session.session_id
    with verified_view(log, grant, session_id) as found:
        now, mark = labels_of(open_about(found.keys, found.row)), retention.decode(found.row.retention).policy
    after = _checked(given, removed, now)
    if after.named == now.named:
        return dict(after.named)
    policy = parts.policies.active(grant.tenant, fresh=True)
    known = {policy.mark: policy} if mark == policy.mark else parts.policies.by_mark(grant.tenant)
    work = _Change(parts, grant, given, removed, policy, known)
    fact = NewEvent(type=RELABELLED, payload={"labels": dict(given), "removed": sorted(removed)})
    append(log, grant, session, [fact], Terms(posted=True, retracting=work.run))
    log.witness.saw([head_of(work.head)])
    return dict(work.labels.named)


class _Change:
    """What is done inside the transaction that appends the fact."""

    head: SessionRow
    labels: Labels

    def __init__(
        self,
        parts: Parts,
        grant: Grant,
        given: Mapping[str, str],
        removed: Collection[str],
        policy: Policy,
        known: Mapping[str, Policy],
    ) -> None:
        self._parts, self._grant, self._given, self._removed = parts, grant, given, removed
        self._policy, self._known = policy, known

    def run(self, transaction: Transaction, row: SessionRow) -> None:
        log = self._parts.log
        keys = epoch_keys(log, self._grant, row.session_id, row.epoch)
        about = open_about(keys, row)
        was, terms = labels_of(about), retention.decode(row.retention)
        # The time of the fact, which never goes back within a log.
        labels = _checked(self._given, self._removed, was, row.updated_us)
        self._move_index(transaction, row, was, labels)
        terms = relabelled(
            terms,
            self._policy,
            was,
            labels,
            bounds=self._parts.policies.bounds,
            before=self._known.get(terms.policy),
        )
        changed = {"labels": dict(labels.named), _SINCE: dict(labels.since)}
        about = {name: value for name, value in (about | changed).items() if value or name not in changed}
        sealed = seal(keys.payload, keys.context(b"about"), canonical_json(about), log.sealing)
        after = row._replace(retention=retention.encode(terms), about=sealed, version=row.version + 1)
        after = after._replace(due_hour=due_hour(after))
        after = after._replace(mac=rows.session_mac(keys.mac, after))
        if not transaction.move_session(after, row):
            raise Tampered("the database does not take a session's labels: its rules were changed")
        transaction.heads[row.session_id] = self.head = after
        self.labels = labels

    def _move_index(self, transaction: Transaction, row: SessionRow, was: Labels, labels: Labels) -> None:
        tenant = self._grant.tenant
        before, now = ({tenant.blind("label", *pair) for pair in one.named.items()} for one in (was, labels))
        if gone := before - now:
            # What the hold on the tenant says is not asked: that one goes by no label.
            holds = self._parts.store.holds(tenant.tenant_id)
            if any(hold.tag in gone and not hold.lifted_us for hold in holds):
                raise Conflict(_HELD)
        stored = {label for (label,) in transaction.scan("all_labels_of_session", session_no=row.no)}
        if stored != before:
            raise Tampered(_INDEX_CHANGED)
        moved = [("remove_label", label) for label in gone] + [("add_label", label) for label in now - before]
        for statement, label in moved:
            if transaction.change(statement, label=label, session_no=row.no) != 1:
                raise Tampered("the database does not take a label: its rules were changed")


def _checked(given: Mapping[str, str], removed: Collection[str], was: Labels, now_us: int = 0) -> Labels:
    """Labels with some given and some taken away.

    Raises:
        InvalidInput: a name or value cannot be stored, or a label is both given and taken away;
            or it would have too many.
    """
    if not isinstance(given, Mapping) or isinstance(removed, str) or not isinstance(removed, Collection):
        raise InvalidInput("labels are given by name and value, and taken away by a list of names")
    if len(removed) > LABELS_MAX:
        raise InvalidInput(f"a session has at most {LABELS_MAX} labels; so many can be taken away at once")
    for name in (*given, *removed):
        check_name(name, "a label's name")
    for value in given.values():
        check_name(value, "a label's value")
    if not set(given).isdisjoint(removed):
        raise InvalidInput("a label is either given or taken away, not both")
    labels = was.changed(given, removed, now_us)
    if len(labels.named) > LABELS_MAX:
        raise InvalidInput(f"a session has at most {LABELS_MAX} labels; take some away")
    return labels
