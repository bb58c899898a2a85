"""The interface between the server and what computes attention: the weights of one sentence and its translation."""

from __future__ import annotations

from typing import Literal, Protocol

from dragoman.serving.lines import Pair

AttentionForm = Literal["json", "html"]


class AttentionSource(Protocol):
    """Computes the attention of the models of language pairs."""

    async def attention(self, pair: Pair, text: str, translation: str, form: AttentionForm) -> str:
        """Return the attention while the model of a pair reads `text` and writes `translation`.

        Args:
            pair: the languages, for which there is a model.
            text: a sentence.
            translation: its translation.
            form: "json" for the weights as JSON, see `dragoman.serving.workers.attention_worker`; "html" for the page.

        Raises:
            RequestError: with status 400 if the sentence is empty or too long, or the model has no attention to show;
                with status 503 if it takes too long, or too many others wait.
        """
        ...
