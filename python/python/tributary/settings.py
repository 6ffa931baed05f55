"""Settings of the embedded switch, from the script or from the environment."""

from __future__ import annotations

import os
from pathlib import Path

_configured: str | None = None


def configure(settings: str | os.PathLike[str] | None) -> None:
    """Sets how the first rank configures the embedded switch.

    Call it before the first collective of the group. It has precedence over the environment
    variable `TRIBUTARY_SETTINGS`.

    Args:
        settings: TOML text, or the path of a TOML file. None returns to the environment.
    """
    global _configured
    _configured = None if settings is None else _text(settings)


def current() -> str:
    """The settings as TOML text. Empty: the defaults."""
    if _configured is not None:
        return _configured
    return _text(os.environ.get("TRIBUTARY_SETTINGS", ""))


def _text(settings: str | os.PathLike[str]) -> str:
    # A TOML document that is not empty holds "=" or a "[section]". A file name rarely does.
    if isinstance(settings, str) and (not settings.strip() or "=" in settings or "[" in settings):
        return settings
    try:
        return Path(settings).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"Tributary's settings are neither TOML text nor a readable file: {settings!s}: "
            f"{error.strerror}"
        ) from error
