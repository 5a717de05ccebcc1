"""Ray's environment, which it reads once, when it is imported."""

from __future__ import annotations

import os
import secrets
import sys


def prepare_ray(address: str | None) -> None:
    """Set what Ray reads at import: to be called before ``harness.sweep.ray_actors`` is imported.

    A cluster that is started here gets a token of its own. Left alone, Ray would write one to
    the home folder, which then switches authentication on for every later cluster of this user.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address is None and "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
