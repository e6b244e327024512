"""Who sits before the machine."""

from __future__ import annotations

import getpass

UNKNOWN = "unknown"


def login_name() -> str:
    """Return the login name of the person, as the environment or the system tells it."""
    try:
        return getpass.getuser() or UNKNOWN
    except (KeyError, OSError, ImportError):  # a container may run as a user without a name
        return UNKNOWN
