"""What every test shares: how hypothesis searches, chosen by HYPOTHESIS_PROFILE."""

import os

from hypothesis import settings

# No deadline: a shared machine is slow at random, and no test here judges time.
settings.register_profile("ci", deadline=None, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
