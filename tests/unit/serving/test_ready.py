"""/ready reports whether the models can translate."""

import asyncio

import pytest
from starlette.testclient import TestClient

from dragoman.serving import app as app_module
from dragoman.serving.app import ServerApp, build_app
from dragoman.serving.limits import Limits
from dragoman.serving.metrics import Metrics


def make_app(answer: bool, seconds: float = 0) -> ServerApp:
    async def ready() -> bool:
        await asyncio.sleep(seconds)
        return answer

    return build_app([], limits=Limits(), metrics=Metrics(), ready=ready)


@pytest.mark.parametrize(("answer", "status"), [(True, 200), (False, 503)])
def test_ready_is_the_answer_of_the_models(answer: bool, status: int) -> None:
    response = TestClient(make_app(answer)).get("/ready")
    assert (response.status_code, response.json()) == (status, {"ready": answer})


def test_a_server_that_stops_is_not_ready_but_alive() -> None:
    app = make_app(True)
    app.stopping = True
    assert TestClient(app).get("/ready").status_code == 503
    assert TestClient(app).get("/live").status_code == 200


def test_models_that_do_not_answer_are_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "READY_SECONDS", 0.05)
    assert TestClient(make_app(True, seconds=60)).get("/ready").status_code == 503


def test_requests_at_the_same_time_share_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = 0

    async def ready() -> bool:
        nonlocal checks
        checks += 1
        await asyncio.sleep(0.02)
        return True

    async def check() -> None:
        app = build_app([], limits=Limits(), metrics=Metrics(), ready=ready)
        client = asyncio.create_task(app._checked())
        await asyncio.sleep(0)
        # As when a client leaves: the others still get the answer.
        client.cancel()
        assert all(await asyncio.gather(*(app._checked() for _ in range(20))))
        assert await app._checked()
        assert checks == 1
        monkeypatch.setattr(app, "_check_holds_until", 0.0)
        assert await app._checked()
        assert checks == 2

    asyncio.run(check())
