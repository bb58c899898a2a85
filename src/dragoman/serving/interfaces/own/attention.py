"""/v1/attention: what a model attends to while it translates a sentence, as numbers or as a page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dragoman.attention_page.page import content_hashes
from dragoman.serving.context import ServerContext
from dragoman.serving.interfaces.own.endpoints import admit, read_body, reporting_errors
from dragoman.serving.interfaces.own.schemas import AttentionRequest
from dragoman.serving.texts.service import AUTO, TextOptions


def routes(context: ServerContext) -> list[BaseRoute]:
    """Return the route /v1/attention."""
    scripts, styles = content_hashes()
    # The page needs its own scripts only, and no access to this server.
    policy = (
        f"default-src 'none'; script-src {' '.join(scripts)}; style-src {' '.join(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
    )

    async def attention(request: Request) -> Response:
        body = await read_body(request, AttentionRequest)
        with admit(context.access, request, len(body.text) + len(body.translation or "")):
            result = await computed(body)
        if body.format == "html":
            return Response(result, headers={"Content-Security-Policy": policy}, media_type="text/html")
        return Response(result, media_type="application/json")

    async def computed(body: AttentionRequest) -> str:
        service = context.service
        source = await service.source_of(body.text, body.target) if body.source == AUTO else body.source
        pair = service.direct_pair(source, body.target)
        translation = body.translation
        if translation is None:
            [text] = await service.translate(
                [body.text], TextOptions(source=source, target=body.target, split_sentences=False)
            )
            translation = text.text
        return await context.attention.attention(pair, body.text, translation, body.format)

    return [Route("/v1/attention", reporting_errors(attention), methods=["POST"])]
