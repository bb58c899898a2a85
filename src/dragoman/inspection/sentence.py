"""Construction of an `AttentionMap` from a model and a pair of sentences."""

from dragoman.attention_page.data import Candidate, HeadAblation
from dragoman.attention_page.map import AttentionMap
from dragoman.errors import ModelError
from dragoman.inspection import ablation
from dragoman.inspection.capture import capture
from dragoman.models.decoder_only import DecoderOnly
from dragoman.search.torch_backend import TorchBackend
from dragoman.text.lines import clean_line
from dragoman.text.tokenizer import Tokenizer


def attention_map(
    backend: TorchBackend,
    tokenizer: Tokenizer,
    text: str,
    translation: str,
    *,
    details: bool,
    candidates: int,
    without_heads: bool,
) -> AttentionMap:
    """Return the attention map of a pair; see `Translator.attention`.

    Args:
        backend: a backend of one model.
        tokenizer: the tokenizer of the model.
        text: the source, clean and not empty.
        translation: the target, clean and not empty.
        details: see `Translator.attention`.
        candidates: see `Translator.attention`.
        without_heads: see `Translator.attention`.

    Raises:
        ModelError: if the model has no attention.
    """
    [source], [output] = tokenizer.encode_source([text]), tokenizer.encode_target([translation])
    model = backend.only_model
    [captured] = capture(model, [source], [output], details=details)
    if captured.encoder_self is captured.decoder_self is captured.encoder_decoder is None:
        raise ModelError("this model has no attention, so there is nothing to show")
    [score] = backend.score([source], [output], length_penalty=1.0)
    heads = ablation.heads_of(model, captured) if without_heads else []
    ablated, output_with_all = ablation.without_each(model, source, output, heads)
    *translations, with_all = tokenizer.decode_target([*(ablation.output for ablation in ablated), output_with_all])
    source_texts, target_texts = (*tokenizer.source_texts(source), "</s>"), ("<s>", *tokenizer.target_texts(output))
    decoder_only = isinstance(model, DecoderOnly)
    if decoder_only:
        source_texts, target_texts = (), (*source_texts, *target_texts)
    return AttentionMap(
        text=text,
        translation=translation,
        source=source_texts,
        target=target_texts,
        predicted=(*target_texts[1:], "</s>"),
        encoder_self=captured.encoder_self,
        decoder_self=captured.decoder_self,
        encoder_decoder=captured.encoder_decoder,
        log_probability=score.log_probability,
        candidates=tuple(
            tuple(Candidate(token=tokenizer.target_texts([index])[0], probability=p) for index, p in position)
            for position in (ablation.candidates(model, source, output, candidates) if candidates else [])
        ),
        without=tuple(
            HeadAblation(head=each.head, translation=clean_line(translation), log_probability=each.log_probability)
            for each, translation in zip(ablated, translations, strict=True)
        ),
        with_all=clean_line(with_all),
        decoder_only=decoder_only,
        right_to_left=tokenizer.right_to_left,
    )
