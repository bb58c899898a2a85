"""Requests generated from the OpenAPI description: no answer is a server error, and each is as described."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from dragoman.serving.limits import Limits
from tests.support.serving_page import WordLines, make_app

CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
OPERATIONS = {
    "/v1/translate": "POST",
    "/v1/translate/stream": "POST",
    "/v1/attention": "POST",
    "/v1/detect": "POST",
    "/v1/languages": "GET",
}


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    app = make_app(WordLines(), tmp_path_factory.mktemp("data"), limits=Limits(texts=5))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def test_every_operation_is_fuzzed(described: Any) -> None:
    operations = [result.ok() for result in described.get_all_operations()]
    assert {operation.path: operation.method.upper() for operation in operations} == OPERATIONS


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", OPERATIONS)
def test_requests_made_from_the_description(described: Any, path: str, mode: GenerationMode) -> None:
    if path == "/v1/languages" and mode is GenerationMode.NEGATIVE:
        return  # It has no parameters that could be wrong.
    operation = described[path][OPERATIONS[path]]

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    check()
