"""Google ADK over the vault: its session, artifact and memory services, each for one principal.

Give them to ADK's own ``Runner``. ``google_adk_sqlite`` moves ADK's databases in.
"""

from vault.adapters.google_adk_artifacts import VaultArtifactService
from vault.adapters.google_adk_memories import VaultMemoryService
from vault.adapters.google_adk_sessions import VaultSessionService

__all__ = ["VaultArtifactService", "VaultMemoryService", "VaultSessionService"]
