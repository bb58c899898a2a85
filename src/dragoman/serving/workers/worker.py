"""Worker process: translates lines for the server, several at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from socket import socket

from dragoman.errors import CorpusError, SettingsError, UserError
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, SearchInput
from dragoman.serving.lines import Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.workers.frames import FrameError, encode_frame, read_frame
from dragoman.serving.workers.held_models import HeldModel
from dragoman.serving.workers.messages import Failure, LineRequest, Refusal, read_number, read_part
from dragoman.serving.workers.sentence_search import SentenceSearch, search_of
from dragoman.settings import to_mapping
from dragoman.translation.assembly import LineSteps
from dragoman.translation.results import Translation


def work(connection: socket, models: Sequence[HeldModel]) -> None:
    """Translate for the server until it closes the connection. Threads may still run when this returns."""
    asyncio.run(_work(connection, models))


async def _work(connection: socket, models: Sequence[HeldModel]) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    try:
        searches = {model.pair: search_of(model.load().backend) for model in models}
    except (UserError, FloatingPointError) as error:
        writer.write(encode_frame({"error": to_mapping(Failure.of(error))}))
        await writer.drain()
        return
    writer.write(encode_frame({"ready": True}))
    worker = Worker({model.pair: model for model in models}, searches, writer)
    while (message := await read_frame(reader)) is not None:
        worker.receive(message)


class Worker:
    """Translates lines as the messages of the server ask, and writes the answers.

    Args:
        models: the model of each language pair.
        searches: the search with each of the models.
        writer: where answers are written.
    """

    def __init__(
        self, models: Mapping[Pair, HeldModel], searches: Mapping[Pair, SentenceSearch], writer: asyncio.StreamWriter
    ) -> None:
        self._models, self._searches, self._writer = models, searches, writer
        self._lines: dict[int, asyncio.Task[None]] = {}
        self._signs = self._current_signs()

    def receive(self, message: Mapping[str, object]) -> None:
        """Do what a message asks.

        Raises:
            FrameError: if it is not one of the messages in `messages`.
        """
        match message:
            case {"translate": value}:
                request = read_part(LineRequest, value)
                if request.id in self._lines:
                    raise FrameError(f"two requests have the number {request.id}")
                task = asyncio.create_task(self._answer(request))
                self._lines[request.id] = task
                task.add_done_callback(lambda _: self._lines.pop(request.id))
            case {"cancel": number}:
                number = read_number(number)
                # Otherwise the answer is on its way already.
                if (line := self._lines.get(number)) and line.cancel():
                    self._writer.write(encode_frame({"cancelled": number}))
            case {"ping": number}:
                self._writer.write(encode_frame({"pong": read_number(number), "proceeds": self._proceeds()}))
            case _:
                raise FrameError("a message is of an unknown kind")

    def _proceeds(self) -> bool:
        """Return False if a part of a search has work, but has not proceeded since the last call."""
        former, self._signs = self._signs, self._current_signs()
        return all(sign is None or sign != before for sign, before in zip(self._signs, former, strict=True))

    def _current_signs(self) -> list[int | None]:
        return [sign for search in self._searches.values() for sign in search.signs()]

    async def _answer(self, request: LineRequest) -> None:
        try:
            answer = encode_frame({"id": request.id, "translation": to_mapping(await self._translate(request))})
        except RequestError as error:
            answer = self._refusal(request, error.status, error.message)
        except (CorpusError, SettingsError) as error:
            answer = self._refusal(request, 400, str(error))
        except Exception as error:
            # The text of an unexpected error could contain that of the request.
            answer = self._refusal(request, 500, f"the line cannot be translated ({type(error).__name__})")
        self._writer.write(answer)

    def _refusal(self, request: LineRequest, status: int, message: str) -> bytes:
        return encode_frame({"id": request.id, "refused": to_mapping(Refusal(status=status, message=message))})

    async def _translate(self, request: LineRequest) -> Translation:
        model, options = self._models.get(request.pair), request.options
        if model is None:
            raise RequestError(400, f"{request.pair[0]} to {request.pair[1]} is not supported")
        head = model.head if options.alignment else None
        if options.alignment and options.alignment_required and head is None:
            raise RequestError(
                400, f"links between words are not available from {request.pair[0]} to {request.pair[1]}"
            )
        config = SearchConfig(beam=options.beam, n_best=options.n_best)
        begin = partial(
            model.load().line_steps, request.line, prefix=options.prefix, alignment=head, words=options.words
        )
        # Alignment takes long, and its first use imports torch: the other lines do not wait for it.
        steps = await asyncio.to_thread(begin) if head else begin()
        hypotheses: list[list[Hypothesis]] | None = None
        while True:
            advance = partial(_advance, steps, hypotheses)
            reached = await asyncio.to_thread(advance) if head else advance()
            if isinstance(reached, Translation):
                return reached
            hypotheses = await self._search(reached, config, request)

    async def _search(
        self, inputs: Sequence[SearchInput], config: SearchConfig, request: LineRequest
    ) -> list[list[Hypothesis]]:
        loop, search = asyncio.get_running_loop(), self._searches[request.pair]
        results: list[asyncio.Future[list[Hypothesis]]] = [loop.create_future() for _ in inputs]
        tickets = []
        try:
            for each, result in zip(inputs, results, strict=True):
                tickets.append(
                    search.submit(each, config, partial(_settle_in, loop, result), group=request.options.group)
                )
            return list(await asyncio.gather(*results))
        except BaseException:
            for ticket in tickets:
                search.cancel(ticket)
            raise


def _settle_in(
    loop: asyncio.AbstractEventLoop,
    result: asyncio.Future[list[Hypothesis]],
    outcome: list[Hypothesis] | Exception,
) -> None:
    """Set a result from another thread than that of its loop."""
    loop.call_soon_threadsafe(_settle, result, outcome)


def _settle(result: asyncio.Future[list[Hypothesis]], outcome: list[Hypothesis] | Exception) -> None:
    if result.done():
        return
    if isinstance(outcome, Exception):
        result.set_exception(outcome)
    else:
        result.set_result(outcome)


def _advance(steps: LineSteps, hypotheses: list[list[Hypothesis]] | None) -> list[SearchInput] | Translation:
    """Return the inputs of the next search, or the translation at the end."""
    try:
        return next(steps) if hypotheses is None else steps.send(hypotheses)
    except StopIteration as end:
        translation: Translation = end.value
        return translation
