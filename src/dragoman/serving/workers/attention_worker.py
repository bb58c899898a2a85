"""Process that computes attention for the server, one sentence at a time.

Attention is computed in torch, which needs hundreds of megabytes and a second to load. A process of its own, of low
priority, keeps that from the workers, which translate; the server ends it when it has had nothing to do for a while.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from socket import socket

import numpy as np

from dragoman.attention_page.map import AttentionMap
from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.serving.attention_requests import AttentionForm
from dragoman.serving.lines import Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.workers.frames import FrameError, encode_frame, read_frame
from dragoman.serving.workers.held_models import HeldModel
from dragoman.serving.workers.messages import AttentionRequest, Refusal, read_number, read_part
from dragoman.settings import to_mapping
from dragoman.translation.translator import Translator

# Tokens of a sentence and of its translation: the size of a result grows with their square.
MAX_TOKENS = 64
# Characters of a result.
MAX_RESULT = 6 << 20
# Most probable tokens that the page shows at each position.
CANDIDATES = 5
# Decimal places of the weights in JSON.
PLACES = 4
# Priority of the process: the workers go first.
NICENESS = 10


def compute_attention(connection: socket, models: Sequence[HeldModel]) -> None:
    """Compute attention for the server until it closes the connection."""
    os.nice(NICENESS)
    asyncio.run(_compute(connection, {model.pair: model for model in models}))


async def _compute(connection: socket, models: Mapping[Pair, HeldModel]) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    writer.write(encode_frame({"ready": True}))
    # The server sends one request at a time; pings are answered while it is computed.
    task: asyncio.Task[None] | None = None
    while (message := await read_frame(reader)) is not None:
        match message:
            case {"attention": value}:
                request = read_part(AttentionRequest, value)
                if task is not None and not task.done():
                    raise FrameError("a second sentence was sent before the first was answered")
                task = asyncio.create_task(_answer(request, models, writer))
            case {"ping": number}:
                writer.write(encode_frame({"pong": read_number(number), "proceeds": True}))
            case _:
                raise FrameError("a message is of an unknown kind")


async def _answer(request: AttentionRequest, models: Mapping[Pair, HeldModel], writer: asyncio.StreamWriter) -> None:
    try:
        result = await asyncio.to_thread(_result, request, models)
        answer = encode_frame({"id": request.id, "attention": result})
    except RequestError as error:
        answer = _refusal(request, error.status, error.message)
    except Exception as error:
        # The text of an unexpected error could contain that of the request.
        answer = _refusal(request, 500, f"the attention cannot be computed ({type(error).__name__})")
    writer.write(answer)


def _refusal(request: AttentionRequest, status: int, message: str) -> bytes:
    return encode_frame({"id": request.id, "refused": to_mapping(Refusal(status=status, message=message))})


def _result(request: AttentionRequest, models: Mapping[Pair, HeldModel]) -> str:
    model = models.get(request.pair)
    if model is None:
        raise RequestError(400, f"there is no model from {request.pair[0]} to {request.pair[1]}")
    return attention_of(model.load(), request.text, request.translation, request.form)


def attention_of(translator: Translator, text: str, translation: str, form: AttentionForm) -> str:
    """Return the attention of a translator as JSON, or as a page in HTML.

    The JSON has the tokens `source` (S), `target` and `predicted` (T), the `log_probability`, and the weights of each
    kind of attention that the model has, as lists [layer, head, query, key]; see `AttentionData`.

    Raises:
        RequestError: with status 400 if a side is empty or has more than `MAX_TOKENS` tokens, if the model has no
            attention, or if the translator has several models; with 413 if the result has more than
            `MAX_RESULT` characters, as that of a model with many heads.
    """
    tokenizer = translator.tokenizer
    for name, tokens in (
        ("text", tokenizer.encode_source([text])),
        ("translation", tokenizer.encode_target([translation])),
    ):
        if len(tokens[0]) > MAX_TOKENS:
            raise RequestError(
                400,
                f"the {name} has {len(tokens[0])} tokens, but at most {MAX_TOKENS} are shown: use one sentence",
            )
    page = form == "html"
    try:
        attention = translator.attention(text, translation, details=page, candidates=CANDIDATES if page else 0)
    except (CorpusError, ModelError, SettingsError) as error:
        raise RequestError(400, str(error)) from error
    result = attention.to_html() if page else json.dumps(_values(attention), ensure_ascii=False)
    if len(result) > MAX_RESULT:
        raise RequestError(413, "the attention of this sentence is too large: use a shorter one")
    return result


def _values(attention: AttentionMap) -> dict[str, object]:
    weights = {kind: arrays.weights.astype(np.float64).round(PLACES).tolist() for kind, arrays in attention.kinds()}
    return {
        "text": attention.text,
        "translation": attention.translation,
        "source": attention.source,
        "target": attention.target,
        "predicted": attention.predicted,
        "log_probability": attention.log_probability,
        "right_to_left": attention.right_to_left,
        "weights": weights,
    }
