"""All that can be seen of a model while it reads one sentence and writes another."""

from dragoman.attention_page.data import Candidate, Without
from dragoman.attention_page.map import AttentionMap
from dragoman.errors import ModelError
from dragoman.inspection import ablation
from dragoman.inspection.capture import capture
from dragoman.search.torch_backend import TorchBackend
from dragoman.text.lines import clean_line
from dragoman.text.tokenizer import Tokenizer


def attention_map(
    searcher: TorchBackend,
    tokenizer: Tokenizer,
    text: str,
    translation: str,
    *,
    details: bool,
    candidates: int,
    without_heads: bool,
) -> AttentionMap:
    """See `Translator.attention`; both texts are clean, not empty, and short enough."""
    [source], [output] = tokenizer.encode_source([text]), tokenizer.encode_target([translation])
    model = searcher.only_model
    [captured] = capture(model, [source], [output], details=details)
    if captured.encoder_self is captured.decoder_self is captured.encoder_decoder is None:
        raise ModelError("this model has no attention: there is nothing to see")
    [score] = searcher.score([source], [output], length_penalty=1.0)
    heads = ablation.heads_of(model, captured) if without_heads else []
    without, whole = ablation.without_each(model, source, output, heads)
    *says, with_all = tokenizer.decode_target([*(each.output for each in without), whole])
    source_texts, target_texts = tokenizer.source_texts(source), tokenizer.target_texts(output)
    return AttentionMap(
        text=text,
        translation=translation,
        source=(*source_texts, "</s>"),
        target=("<s>", *target_texts),
        predicted=(*target_texts, "</s>"),
        encoder_self=captured.encoder_self,
        decoder_self=captured.decoder_self,
        encoder_decoder=captured.encoder_decoder,
        log_probability=score.log_probability,
        candidates=tuple(
            tuple(Candidate(token=tokenizer.target_texts([index])[0], probability=p) for index, p in some)
            for some in (ablation.candidates(model, source, output, candidates) if candidates else [])
        ),
        without=tuple(
            Without(head=each.head, translation=clean_line(said), log_probability=each.log_probability)
            for each, said in zip(without, says, strict=True)
        ),
        with_all=clean_line(with_all),
        right_to_left=tokenizer.right_to_left,
    )
