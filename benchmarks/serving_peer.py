"""A plain translation server on CTranslate2, the peer in benchmarks/serving.py.

    python benchmarks/serving_peer.py MODEL EXPORTED --port 5001 --translators 2 --threads 1 --batch 32

It answers POST /translate of LibreTranslate's interface for one text, splits it as `dragoman serve` does, and has none
of the limits, checks and guards of that server. CTranslate2 does not put the sentences of different calls together, so
those that wait are collected here: each translator takes up to --batch of them when it is free.
"""

import argparse
import asyncio
from collections import deque
from pathlib import Path

import ctranslate2
import sentencepiece
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dragoman.serving.texts.pieces import split_plain_text

BEAM = 5
MAX_LENGTH_OFFSET = 50


class Batcher:
    """Translates sentences in batches of those that wait.

    Args:
        translator: CTranslate2's translator, which runs `inter_threads` batches at the same time.
        tokenizer: the subwords of the model.
        batch: largest number of sentences of a batch.
    """

    def __init__(
        self, translator: ctranslate2.Translator, tokenizer: sentencepiece.SentencePieceProcessor, batch: int
    ) -> None:
        self._translator, self._tokenizer, self._batch = translator, tokenizer, batch
        self._end = tokenizer.id_to_piece(tokenizer.eos_id())
        self._free = translator.num_translators
        self._waiting: deque[tuple[str, asyncio.Future[str]]] = deque()

    def submit(self, sentence: str) -> asyncio.Future[str]:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((sentence, future))
        # After the other sentences of the same request.
        asyncio.get_running_loop().call_soon(self._start)
        return future

    def _start(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            asyncio.get_running_loop().create_task(self._run(taken))

    async def _run(self, taken: list[tuple[str, asyncio.Future[str]]]) -> None:
        texts = await asyncio.to_thread(self._translate, [sentence for sentence, _ in taken])
        for text, (_, future) in zip(texts, taken, strict=True):
            # Its client may have gone away.
            if not future.done():
                future.set_result(text)
        self._free += 1
        self._start()

    def _translate(self, sentences: list[str]) -> list[str]:
        subwords = [[*line, self._end] for line in self._tokenizer.encode(sentences, out_type=str)]
        results = self._translator.translate_batch(
            subwords,
            beam_size=BEAM,
            length_penalty=1.0,
            max_decoding_length=MAX_LENGTH_OFFSET + max(map(len, subwords)),
        )
        texts: list[str] = self._tokenizer.decode([result.hypotheses[0] for result in results])
        return texts


def build(batcher: Batcher) -> Starlette:
    async def translate(request: Request) -> Response:
        text = (await request.json())["q"]
        split = split_plain_text(text, "en", split_sentences=True)
        translated = await asyncio.gather(*(batcher.submit(piece.source) for piece in split.pieces))
        return JSONResponse({"translatedText": split.assembled(list(translated))})

    async def ready(_request: Request) -> Response:
        await batcher.submit("ready")
        return JSONResponse({"ready": True})

    return Starlette(routes=[Route("/translate", translate, methods=["POST"]), Route("/ready", ready)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("exported", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--translators", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    arguments = parser.parse_args()
    translator = ctranslate2.Translator(
        str(arguments.exported),
        device="cpu",
        inter_threads=arguments.translators,
        intra_threads=arguments.threads,
        compute_type="default",
    )
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(arguments.model / "tokenizer.model"))
    app = build(Batcher(translator, tokenizer, arguments.batch))
    uvicorn.run(app, port=arguments.port, http="httptools", loop="uvloop", log_level="critical", access_log=False)


if __name__ == "__main__":
    main()
