"""The OpenAPI 3.1 description of /v1, made from the schemas of its requests and answers."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic.json_schema import models_json_schema

from dragoman.serving.interfaces.own.schemas import (
    AttentionAnswer,
    AttentionRequest,
    DetectAnswer,
    DetectRequest,
    ErrorAnswer,
    LanguagesAnswer,
    Schema,
    Sentence,
    StreamRequest,
    TranslateAnswer,
    TranslatedTextAnswer,
    TranslateRequest,
)
from dragoman.serving.limits import Limits
from dragoman.serving.workers.attention_process import SECONDS
from dragoman.serving.workers.attention_worker import MAX_TOKENS
from dragoman.version import __version__

Json = dict[str, object]

_SCHEMAS: tuple[type[Schema], ...] = (
    TranslateRequest,
    StreamRequest,
    DetectRequest,
    AttentionRequest,
    AttentionAnswer,
    TranslateAnswer,
    TranslatedTextAnswer,
    Sentence,
    DetectAnswer,
    LanguagesAnswer,
    ErrorAnswer,
)
_ERRORS = {
    "400": "The body is not what the schema describes, or the languages are not supported.",
    "403": "The key is missing or unknown.",
    "408": "The body does not arrive in time.",
    "413": "The texts have more characters than a request may have.",
    "415": "The body is not sent as application/json.",
    "421": "The name of the host is not one of the names of the server.",
    "429": "The key or the address has sent too much in a minute. Retry-After gives the seconds to wait.",
    "456": "The quota of the key in this month is exhausted.",
    "500": "Internal error of the server.",
    "503": "The server is full or stopping, or the sentence was lost. Retry-After gives the seconds to wait.",
}
_STREAM = (
    "Server-sent events. Each event sentence has a Sentence as JSON, in the order of the text, as soon as it is "
    "finished; the last event, text, has a TranslatedTextAnswer. If the work fails after the first sentence, the "
    "last event is error, with an ErrorAnswer. A client that closes the connection ends the work."
)

_ATTENTION = (
    "The weights, or the page if `format` is html. The languages need a model of their own. One sentence is computed "
    f"at a time, of at most {MAX_TOKENS} tokens; 503 answers one that takes more than {SECONDS:.0f} seconds."
)


def describe(limits: Limits, *, keys_required: bool) -> Json:
    """Return the OpenAPI 3.1 description.

    Args:
        limits: the limits of the server, which the description states.
        keys_required: whether every request needs a key.
    """
    _, definitions = models_json_schema(
        [(schema, "validation") for schema in _SCHEMAS], ref_template="#/components/schemas/{model}"
    )
    schemas = definitions["$defs"]
    for name in ("TranslateRequest", "StreamRequest"):
        schemas[name]["properties"]["alternatives"]["maximum"] = limits.alternatives
    schemas["TranslateRequest"]["properties"]["texts"]["maxItems"] = limits.texts
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dragoman",
            "version": __version__,
            "description": f"Translations with scores, alternatives and word links. A request may have "
            f"{limits.characters:,} characters.",
        },
        # Relative, so that the description is right behind a proxy that serves it below a path.
        "servers": [{"url": "."}],
        "security": [{"key": []}] if keys_required else [],
        "paths": {
            "/v1/translate": {
                "post": _post("Translate texts", "translate", TranslateRequest, _answer(TranslateAnswer))
            },
            "/v1/translate/stream": {
                "post": _post("Translate a text sentence by sentence", "stream", StreamRequest, _events())
            },
            "/v1/attention": {
                "post": _post("Show what a model attends to in a sentence", "attention", AttentionRequest, _attention())
            },
            "/v1/detect": {
                "post": _post("Detect the language of a text", "detect", DetectRequest, _answer(DetectAnswer))
            },
            "/v1/languages": {
                "get": {
                    "summary": "List the languages and the limits",
                    "operationId": "languages",
                    "responses": {"200": _answer(LanguagesAnswer), **_errors("403", "408", "421", "429", "500", "503")},
                }
            },
        },
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _post(summary: str, name: str, body: type[Schema], answer: Mapping[str, object]) -> Json:
    return {
        "summary": summary,
        "operationId": name,
        "requestBody": {"required": True, "content": _json_content(body)},
        "responses": {"200": answer, **_errors(*_ERRORS)},
    }


def _answer(schema: type[Schema]) -> Json:
    return {"description": "The answer.", "content": _json_content(schema)}


def _attention() -> Json:
    html: Json = {"text/html": {"schema": {"type": "string"}}}
    return {"description": _ATTENTION, "content": {**_json_content(AttentionAnswer), **html}}


def _events() -> Json:
    return {"description": _STREAM, "content": {"text/event-stream": {"schema": {"type": "string"}}}}


def _errors(*statuses: str) -> Json:
    return {status: {"description": _ERRORS[status], "content": _json_content(ErrorAnswer)} for status in statuses}


def _json_content(schema: type[Schema]) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema.__name__}"}}}
