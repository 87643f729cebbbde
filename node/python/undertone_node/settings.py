"""Where a daemon answers and by what token, as node.toml and the environment say."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any, Mapping, NoReturn

if sys.version_info >= (3, 11):
    import tomllib
else:  # What became tomllib.
    import tomli as tomllib

from .errors import Misconfigured

#: A token has 16 to 512 visible ASCII characters, as the daemon has it.
_SHORTEST, _LONGEST = 16, 512


class Token:
    """The bearer token. It is never printed, logged or pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def header(self) -> str:
        """The value of ``Authorization``."""
        return "Bearer " + self._text

    def __repr__(self) -> str:
        return "Token"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a token is not written anywhere")


def load(config: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> tuple[str, Path]:
    """The API's address ("HOST:PORT" or "unix:PATH") and the token's file. Paths of the file count
    from its folder, those of the environment (UNDERTONE_STATE, UNDERTONE_API_LISTEN,
    UNDERTONE_API_TOKEN) from here."""
    folder, file = Path(""), {}
    if config is not None:
        folder = Path(config).parent
        try:
            with open(config, "rb") as opened:
                file = tomllib.load(opened)
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise Misconfigured(f"{os.fspath(config)}: {error}") from None
    api: dict[str, Any] = file.get("api", {})
    state = Path(environment.get("UNDERTONE_STATE") or folder / str(file.get("state", "state")))
    listen = environment.get("UNDERTONE_API_LISTEN")
    if listen is None and (found := api.get("listen")) is not None:
        listen = str(found)
        if listen.startswith("unix:"):
            listen = f"unix:{folder / listen.removeprefix('unix:')}"
    token = environment.get("UNDERTONE_API_TOKEN")
    if token is None and "token" in api:
        token = str(folder / str(api["token"]))
    return listen or f"unix:{state / 'api.sock'}", Path(token or state / "api.token")


def address(text: str) -> str:
    """An address of the API as it is connected to, "HOST:PORT" or "unix:PATH"; "http://HOST:PORT" is
    the first of them, as the command line has it.

    Raises Misconfigured."""
    if text.startswith("unix:"):
        if text == "unix:":
            raise _no_address(text, "it has no path")
        return text
    if text.startswith("https://"):
        raise _no_address(text, "the API speaks plain HTTP; put a proxy in front of it where TLS is needed")
    plain = text.removeprefix("http://").rstrip("/")
    host, colon, port = plain.rpartition(":")
    if not colon:
        raise _no_address(text, "it has no port")
    if not host or any(odd in host for odd in "/@ ") or (":" in host and not host.startswith("[")):
        raise _no_address(text, "its host is not one")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise _no_address(text, "its port is not one")
    return plain


def _no_address(text: str, why: str) -> Misconfigured:
    return Misconfigured(f"{text!r} is no address of an API: {why}; write HOST:PORT or unix:PATH")


def read_token(path: Path) -> Token:
    """Reads the token's file, which only its owner may be able to read."""
    try:
        with open(path, encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise Misconfigured(f"token {path}: others can read it (mode {mode:04o}); chmod 600 {path}")
            text = file.read(_LONGEST + 2).rstrip("\r\n")
    except OSError as error:
        raise Misconfigured(f"token {path}: {error.strerror}; is `undertone node` running?") from None
    except UnicodeDecodeError:
        text = ""
    # What is no token would be quoted by the library that sends it.
    if not _SHORTEST <= len(text) <= _LONGEST or not all("!" <= c <= "~" for c in text):
        raise Misconfigured(f"token {path}: holds no token")
    return Token(text)
