"""An error as an answer: the same code, text and fix that the command line shows, as JSON with an HTTP status."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from headrace.errors import HeadraceError, ServeError

MEDIA_TYPE = "application/problem+json"
_STATUS = {
    "HR-501": 404,
    "HR-502": 404,
    "HR-509": 409,
    "HR-510": 401,
    "HR-511": 403,
    "HR-512": 403,
    "HR-513": 503,
    "HR-514": 503,
    "HR-515": 503,
    "HR-517": 503,
    "HR-518": 503,
    "HR-519": 404,
    "HR-520": 503,
    "HR-540": 401,
    "HR-542": 401,
}
_OURS = "HR-5"


def status(error: HeadraceError) -> int:
    """The HTTP status of an error: what the client can correct is 400, what a server lacks is 503."""
    if isinstance(error, ServeError) and isinstance(given := error.more.get("status"), int):
        return given
    return _STATUS.get(error.code, 400 if error.code.startswith(_OURS) else 503)


def body(error: HeadraceError) -> dict[str, Any]:
    """The error as JSON; `steps` and the like stand beside what every error has."""
    told = {name: value for name, value in error.as_dict().items() if name != "where"}
    more = dict(error.more) if isinstance(error, ServeError) else {}
    return {"status": status(error), **told, **more, "more": f"headrace explain {error.code}"}


def answer(error: HeadraceError) -> JSONResponse:
    """The error as a whole answer."""
    headers = {"www-authenticate": "Bearer"} if error.code == "HR-510" else {}
    if status(error) == 503:
        headers["retry-after"] = "1"
    if error.code == "HR-521":
        headers["connection"] = "close"
    return JSONResponse(body(error), status(error), headers, MEDIA_TYPE)
