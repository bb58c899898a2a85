"""Capture of a model's attention weights as arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.attention_page.arrays import CapturedAttention
from dragoman.attention_page.kinds import KINDS, Kind
from dragoman.data.batching import collate, pad
from dragoman.inspection.recording import TextModel, recording
from dragoman.inspection.rows import greedy_outputs
from dragoman.models.decoder_only import DecoderOnly
from dragoman.models.image_classifier import ImageClassifier
from dragoman.models.inference import inference
from dragoman.models.language_model import LanguageModel
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.subwords import BOS, EOS


def capture(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None = None,
    *,
    kinds: Collection[Kind] = KINDS,
    details: bool = False,
) -> list[CapturedAttention]:
    """Return the attention of a model while it reads `sources` and writes `targets`.

    At source position s, the encoder reads token s; the last position is EOS. At target position t, the decoder reads
    BOS (t = 0) or token t - 1, and predicts token t, or EOS at the last position. A decoder-only model has
    `decoder_self` only, whose positions are those of the source followed by those of the target.

    Args:
        model: a model of any architecture, on any device and in any mode; it is in evaluation mode while it runs.
        sources: source ids of each sentence, without special symbols.
        targets: target ids of each sentence, without special symbols. Defaults to the model's outputs (greedy search).
        kinds: the kinds of attention to capture; the others are None.
        details: also capture the queries, keys, values and outputs of the heads.

    Returns:
        One `CapturedAttention` per sentence, without padding. The weights are those of `naive_attention`, in float32.
    """
    with inference([model]):
        if targets is None:
            targets = [output.tokens for output in greedy_outputs(model, sources)]
        if isinstance(model, DecoderOnly):
            rows = [as_one_text(*pair) for pair in zip(sources, targets, strict=True)]
            captured = capture_texts(model.text, rows, kinds=kinds, details=details)
            return [replace(each, target=tuple(target)) for each, target in zip(captured, targets, strict=True)]
        device = next(model.parameters()).device
        batch = collate(sources, targets).to(device)
        with recording(model, kinds) as recorded:
            model.decode_states(batch.target_in, model.encode(batch.source, batch.source_mask), batch.target_mask)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in zip(sources, targets, strict=True)]
    return [
        CapturedAttention(
            target=tuple(int(token) for token in targets[row]),
            encoder_self=recorded["encoder_self"].arrays(row, S, S, details),
            decoder_self=recorded["decoder_self"].arrays(row, T, T, details),
            encoder_decoder=recorded["encoder_decoder"].arrays(row, T, S, details),
        )
        for row, (S, T) in enumerate(lengths)
    ]


def as_one_text(source: Sequence[int], target: Sequence[int]) -> list[int]:
    """Return what a decoder-only model reads of a pair of ids without special symbols."""
    return [*source, EOS, BOS, *target]


def capture_texts(
    model: TextModel,
    rows: Sequence[Sequence[int]],
    *,
    kinds: Collection[Kind] = KINDS,
    details: bool = False,
) -> list[CapturedAttention]:
    """Return the attention of a language model or an encoder while it reads texts.

    A language model has `decoder_self`, whose query t is the token that is read at position t; an encoder has
    `encoder_self`. The weight of compressed attention on a key is divided equally among the tokens of the key.

    Args:
        model: the model, on any device and in any mode; it is in evaluation mode while it runs.
        rows: token ids of each text, with special symbols.
        kinds: the kinds of attention to capture; the others are None.
        details: also capture the queries, keys, values and outputs of the heads, as far as they belong to tokens.

    Returns:
        One `CapturedAttention` per text, without padding. The weights are those of `naive_attention`, in float32.
    """
    tokens, mask = pad(rows)
    with inference([model]), recording(model, kinds) as recorded:
        read(model, tokens, mask)
    for kind in KINDS:
        recorded[kind].join(len(getattr(model.attentions(), kind)), tokens.shape[1])
    return [
        CapturedAttention(target=(), **{kind: recorded[kind].arrays(i, len(row), len(row), details) for kind in KINDS})
        for i, row in enumerate(rows)
    ]


def capture_images(
    model: ImageClassifier, images: Float[Tensor, "B C H W"], *, details: bool = False
) -> list[CapturedAttention]:
    """Return the attention of a classifier of images while it reads images, as `encoder_self`.

    Position 0 is the class token, and the others are the patches, row by row. A model without attention has None.

    Args:
        model: the model, on any device and in any mode; it is in evaluation mode while it runs.
        images: numbers from -1 to 1.
        details: also capture the queries, keys, values and outputs of the heads.

    Raises:
        CorpusError: the images have another size or number of channels than those of the model.

    Returns:
        One `CapturedAttention` per image. The weights are those of `naive_attention`, in float32.
    """
    with inference([model]), recording(model, KINDS) as recorded:
        model.features(images.to(next(model.parameters()).device))
    calls = recorded["encoder_self"].calls
    length = calls[0].weights.shape[-1] if calls else 0
    return [
        CapturedAttention(
            target=(),
            encoder_self=recorded["encoder_self"].arrays(row, length, length, details),
            decoder_self=None,
            encoder_decoder=None,
        )
        for row in range(len(images))
    ]


def read(model: TextModel, tokens: Int64[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    """Return the states of all positions of texts; they are unspecified at padding, which is at the end."""
    device = next(model.parameters()).device
    if isinstance(model, LanguageModel):
        # States do not depend on the padding after them.
        states: Tensor = model(tokens.to(device)).states
        return states
    return model.encode(tokens.to(device), mask.to(device))
