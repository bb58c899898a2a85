"""Synthetic attention maps: queries and keys are random, and the weights are computed from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dragoman.attention_page.arrays import AttentionArrays, AttentionDetails
from dragoman.attention_page.data import Candidate, HeadAblation
from dragoman.attention_page.kinds import KINDS, Head, Kind
from dragoman.attention_page.map import AttentionMap

SOURCE = ("▁The", "▁lamp", "▁was", "▁bri", "ght", ".", "</s>")
OUTPUT = ("▁Die", "▁Lam", "pe", "▁war", "▁hell", ".")


def made_attention(
    source: Sequence[str] = SOURCE,
    output: Sequence[str] = OUTPUT,
    *,
    text: str = "The lamp was bright.",
    translation: str = "Die Lampe war hell.",
    kinds: Sequence[Kind] = KINDS,
    layers: int = 2,
    heads: int = 4,
    width: int = 8,
    details: bool = True,
    bias: bool = False,
    extras: bool = True,
    others: Sequence[str] = ("▁the", "<0xE2>"),
) -> AttentionMap:
    """Return the attention map of one sentence.

    Args:
        source: tokens of the source, with EOS.
        output: tokens of the translation, without EOS.
        text: the source.
        translation: the translation.
        kinds: the kinds of attention that the model has.
        layers: number of layers.
        heads: number of heads per layer.
        width: size of queries and keys.
        details: include queries, keys, values and outputs.
        bias: add a bias to the logits of self-attention.
        extras: include candidates, and translations without single heads.
        others: candidates besides the tokens of the output.
    """
    random = np.random.default_rng(0)
    predicted = (*output, "</s>")
    S, T = len(source), len(predicted)

    def arrays(kind: Kind, queries: int, keys: int) -> AttentionArrays | None:
        if kind not in kinds:
            return None
        query, key = (random.normal(size=(layers, heads, length, width)) * 1.5 for length in (queries, keys))
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(width)
        added = random.normal(size=scores.shape) if bias and kind != "encoder_decoder" else None
        if added is not None:
            scores = scores + added
        if kind == "decoder_self":
            scores = np.where(np.tril(np.ones((queries, keys), dtype=bool)), scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        recorded = (
            AttentionDetails(scale=query.shape[-1] ** -0.5, query=query, key=key, value=key, output=query, bias=added)
            if details
            else None
        )
        return AttentionArrays((powers / powers.sum(-1, keepdims=True)).astype(np.float32), recorded)

    return AttentionMap(
        text=text,
        translation=translation,
        source=tuple(source),
        target=("<s>", *output),
        predicted=predicted,
        encoder_self=arrays("encoder_self", S, S),
        decoder_self=arrays("decoder_self", T, T),
        encoder_decoder=arrays("encoder_decoder", T, S),
        log_probability=-2.5,
        candidates=tuple(
            tuple(
                Candidate(token=each, probability=p) for each, p in zip((token, *others), (0.625, 0.25), strict=False)
            )
            for token in predicted
        )
        if extras
        else (),
        without=tuple(
            HeadAblation(
                head=Head(kind, layer, head),
                translation=translation.replace("war", "ist") if head else translation,
                log_probability=-2.5 + float(random.normal()),
            )
            for kind in kinds
            for layer in range(layers)
            for head in range(heads)
        )
        if extras
        else (),
        with_all=translation if extras else "",
    )
