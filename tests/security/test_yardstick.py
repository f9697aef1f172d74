"""The public yardstick `agent-memory-integrity`: its nine edits at rest (T1-T9) are refused when reading."""

import pytest
from agmi.attacks.at_rest import (
    AT_REST_ATTACKS_WITH_SNAPSHOT,
    CrossContextReplayAttack,
    ForgeAttack,
    MetadataTamperAttack,
    RollbackReplayAttack,
    SnapshotRollbackAttack,
)

from tests.security.vault_adapter import VaultAdapter
from vault import Principal
from vault.ports.records import EventRow

OTHERS = {
    "another session of the same person": Principal(tenant="acme", subject="alice"),
    "another person": Principal(tenant="acme", subject="bob"),
    "another tenant": Principal(tenant="globex", subject="alice"),
}
METADATA = ["given_id", "type", "level", "recorded_us", "run_id", "epoch", "content", "type_nth", "run_nth"]
METADATA += ["salt", "meta", "address", "size", "ref", "chain", "mac"]


def test_every_column_but_an_events_place_and_payload_is_metadata():
    assert {*METADATA} == {*EventRow._fields} - {"session_no", "seq", "event_id", "body", "blob_no"}


def is_refused(result) -> bool:
    """Refused in the vault's own words, after an edit that landed; anything else is no verdict."""
    assert result.error is None
    assert result.guard is None
    return result.status == "safe"


def test_the_yardstick_has_the_nine_edits():
    assert len(AT_REST_ATTACKS_WITH_SNAPSHOT) == 9


@pytest.mark.parametrize("attack", AT_REST_ATTACKS_WITH_SNAPSHOT, ids=lambda attack: attack.name)
def test_every_edit_of_the_yardstick_is_refused_on_read(attack, tmp_path):
    """K2, K4"""
    assert is_refused(attack().run(VaultAdapter(tmp_path)))


@pytest.mark.parametrize("replay", ["body", "whole row"])
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_record_of_another_context_is_refused(other, replay, tmp_path):
    """T6; K2"""
    assert is_refused(CrossContextReplayAttack().run(VaultAdapter(tmp_path, other=other, replay=replay)))


def test_an_older_payload_in_the_place_of_the_newest_is_refused(tmp_path):
    """T7; K2"""
    assert is_refused(RollbackReplayAttack().run(VaultAdapter(tmp_path, replay="body")))


@pytest.mark.parametrize("column", METADATA)
def test_every_column_of_an_event_is_metadata_that_cannot_be_changed(column, tmp_path):
    """T8; K4"""
    adapter = VaultAdapter(tmp_path, metadata=column)
    assert is_refused(MetadataTamperAttack().run(adapter))


@pytest.mark.parametrize("forged_head", [False, True], ids=["event alone", "event and head"])
def test_a_forged_event_is_refused_with_and_without_its_head(forged_head, tmp_path):
    """T5; K4"""
    assert is_refused(ForgeAttack().run(VaultAdapter(tmp_path, forged_head=forged_head)))


@pytest.mark.parametrize("part", [".", "data.db"], ids=["whole directory", "data.db alone"])
def test_an_older_copy_is_refused(part, tmp_path):
    """T9; K4: the whole directory is recognised by what this machine remembers."""
    result = SnapshotRollbackAttack().run(VaultAdapter(tmp_path, snapshot_of=part))
    assert is_refused(result)
    assert "RolledBack" in result.detail


def test_an_older_directory_is_taken_for_current_on_a_machine_that_never_saw_the_vault(tmp_path, monkeypatch):
    """T9: the limit that SECURITY.md states, and proof that the memory is what refuses."""

    class Elsewhere(VaultAdapter):
        def restore_store(self, token):
            super().restore_store(token)
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))

    result = SnapshotRollbackAttack().run(Elsewhere(tmp_path))
    assert result.status == "VULNERABLE"
