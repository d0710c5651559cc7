"""Logging in and out: a key is given once, and kept by the browser in a cookie that no script reads."""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from service.auth.route_policy import access
from service.auth.session_cookie import COOKIE, LOGIN_PATH, forget_key
from service.context import app_context
from service.web.templating.rendering import local_path, render, see_other
from worker.identity import secret_tokens

router = APIRouter(include_in_schema=False)
_Next = Annotated[str | None, Query(alias="next", max_length=2000)]


@router.get(LOGIN_PATH)
@access("open")
async def show_login(request: Request, following: _Next = None) -> Response:
    """The form for a key; without one where no keys are needed."""
    target = local_path(following)
    if app_context(request).settings.auth == "off":
        return see_other(target)
    return render(request, "login.html", following=target, fault=None)


@router.post(LOGIN_PATH)
@access("open")
async def log_in(
    request: Request,
    key: Annotated[str, Form(max_length=1000)] = "",
    following: Annotated[str | None, Form(alias="next", max_length=2000)] = None,
) -> Response:
    """Checks the key, and leads to the page that asked for it."""
    context, target = app_context(request), local_path(following)
    if context.settings.auth == "off":
        return see_other(target)
    text = key.strip()
    if not secret_tokens.is_well_formed(text, secret_tokens.KEY):
        fault = "This does not have the form of a key: it is cut or mistyped."
    elif await run_in_threadpool(context.access.keys.find, text) is None:
        fault = "This key is unknown or revoked."
    else:
        answer = see_other(target)
        # a proxy may speak TLS for us; the origin is that of the page, which was checked
        secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")
        answer.set_cookie(COOKIE, text, path="/", secure=secure, httponly=True, samesite="lax")
        return answer
    headers = {"WWW-Authenticate": "Bearer"}
    return render(request, "login.html", 401, headers, following=target, fault=fault)


@router.post("/logout")
@access("open")
async def log_out() -> Response:
    """Takes the cookie away."""
    answer = see_other(LOGIN_PATH)
    forget_key(answer)
    return answer
