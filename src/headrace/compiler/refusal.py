"""What cannot be kept up to date, told by name with what works instead."""

from __future__ import annotations

from headrace.call import calling
from headrace.errors import DeclarationError


def refused(what: str, found: str, fix: str) -> DeclarationError:
    """The error for a part of a query, at the line of the user's call."""
    return DeclarationError(
        "HR-061", f"This query cannot be kept up to date: {what}.", where=calling().where, found=found, fix=fix
    )


def moving(found: str) -> DeclarationError:
    """The error for a clock or chance in a query."""
    return DeclarationError(
        "HR-060",
        "This query computes something that is not the same when a row goes as when it came, so it could not be taken"
        " back.",
        where=calling().where,
        found=found,
        fix="use columns of the rows instead of the clock or chance",
    )
