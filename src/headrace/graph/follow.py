"""What follows a declared stream or view besides its table: a webhook.

    app.follow(alerts, hr.webhook("https://example.com/alerts", secret_env="ALERTS_SECRET"))

A follower is a definition: nothing is opened when it is declared. The secret is named, not given: it is read from the
environment by `headrace follow`. A webhook speaks https to a public address, unless private addresses are allowed.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from headrace import names
from headrace.call import calling
from headrace.errors import DeclarationError, Location
from headrace.graph.mistakes import report

_URL = re.compile(r"[!-~]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HARMLESS = "https://example.com/"


@dataclass(frozen=True)
class Webhook:
    """A receiver of every change; `secret_env` names the environment variable that holds the secret."""

    url: str
    secret_env: str | None
    allow_private: bool
    name: str


@dataclass(frozen=True)
class Follow:
    """A follower of the node `of`."""

    of: str
    to: Webhook
    where: Location


def webhook(url: str, *, secret_env: str | None = None, allow_private: bool = False, name: str = "webhook") -> Webhook:
    """A receiver at `url` that is sent every change, signed with the secret in the variable `secret_env`.

    `allow_private` lets it be in a private network or on this machine, and speak plain http. `name` tells several
    webhooks of one stream apart.
    """
    call = calling()

    def mistake(what: str, found: object, fix: str, option: str = "") -> None:
        report(DeclarationError("HR-045", what, where=call.at(option), found=found, fix=fix))

    if not isinstance(name, str) or not names.is_name(name) or name == names.TABLE_FOLLOWER:
        mistake(
            "The name of a webhook must be letters, digits and `_`, and begin with a letter; "
            f"`{names.TABLE_FOLLOWER}` is the follower that every view has.",
            f"name={name!r}",
            'write it like `name="mail"`, or leave it out',
            "name",
        )
        name = "webhook"
    if secret_env is not None and (not isinstance(secret_env, str) or not _VARIABLE.fullmatch(secret_env)):
        mistake(
            "`secret_env` is the name of an environment variable, and not the secret itself.",
            "a text that is no name of a variable",
            'write the name, such as `secret_env="ALERTS_SECRET"`, and set the variable where `headrace follow` runs',
            "secret_env",
        )
        secret_env = None
    wrong = _wrong(url, allow_private)
    if wrong is not None:
        mistake(f"The webhook cannot be called: {wrong[0]}.", _shown(url), wrong[1], "url")
        url = _HARMLESS
    return Webhook(url, secret_env, bool(allow_private), name)


def _wrong(url: object, allow_private: bool) -> tuple[str, str] | None:
    """What is wrong with an address, and what to write instead."""
    example = f"write the whole address, such as `{_HARMLESS}alerts`"
    if not isinstance(url, str) or not _URL.fullmatch(url):
        return "its address is not a plain text without blanks", example
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"its address cannot be read ({error})", example
    if parts.scheme not in ("https", "http") or not host:
        return "its address does not begin with `https://` and a host", example
    if "@" in parts.netloc:
        return (
            "its address holds a user or a password, which would stand in the declaration",
            "leave them out, and let the receiver check the signature: `secret_env=…`",
        )
    return None if allow_private else _not_public(url, parts.scheme, host)


def _not_public(url: str, scheme: str, host: str) -> tuple[str, str] | None:
    if scheme == "http":
        return (
            "plain http can be read and changed on its way",
            f"write `https://{url.removeprefix('http://')}`; for a receiver in your own network, `allow_private=True`",
        )
    try:
        public = ipaddress.ip_address(host).is_global
    except ValueError:
        public = host != "localhost"
    return (
        None
        if public
        else (
            f"{host} is not an address of the public internet",
            "name a public receiver; or, if this is one of your own, add `allow_private=True`",
        )
    )


def _shown(url: object) -> str:
    """The address without a password."""
    return re.sub(r"//[^/@]*@", "//…@", url) if isinstance(url, str) else repr(url)
