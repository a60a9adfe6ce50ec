"""For all tests: no example of Hypothesis fails because the machine is busy."""

import os

from hypothesis import settings

settings.register_profile("calm", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("calm")
