"""Figures of heads over a corpus, and what translations lose when heads are switched off together."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.attention_page.kinds import Head
from dragoman.data.readers import Pair
from dragoman.errors import CorpusError, SettingsError
from dragoman.evaluation.metrics import translation_metrics
from dragoman.inspection.head_measurements import IdPair, measure_heads, read_measured_pairs
from dragoman.inspection.heads import heads_off
from dragoman.inspection.pruning import heads_to_prune, prune
from tests.support.small_translator import random_models, random_translator, tokenizer

PAIRS = [("the lamp is on", "the door is open"), ("wait", "now"), ("turn off", "turn on the light")]


def test_over_a_corpus_figures_are_means_over_queries_and_importance_is_what_is_lost() -> None:
    model = random_models(1)[0]
    pairs = [
        IdPair(source, target, tuple(tokenizer().source_texts(source)), tuple(tokenizer().target_texts(target)))
        for source, target in zip(
            tokenizer().encode_source([source for source, _ in PAIRS]),
            tokenizer().encode_target([target for _, target in PAIRS]),
            strict=True,
        )
    ]
    heard: list[tuple[int, int]] = []
    study = measure_heads(model, [pairs[:2], pairs[2:]], on_progress=lambda done, passes: heard.append((done, passes)))
    alone = measure_heads(model, [[pair] for pair in pairs], on_progress=lambda *_: None)
    assert heard[-1] == (len(study.heads) + 2, len(study.heads) + 2)
    assert study.sentences == 3
    assert study.target_tokens == sum(len(pair.target) + 1 for pair in pairs)
    assert {each.statistics.head for each in study.heads} == {
        Head(kind, 0, head) for kind in ("encoder_self", "decoder_self", "encoder_decoder") for head in range(4)
    }
    for one, other in zip(study.heads, alone.heads, strict=True):
        assert one.statistics.entropy == pytest.approx(other.statistics.entropy, abs=1e-4)
        assert one.importance == pytest.approx(other.importance, abs=1e-4)
    scores = random_translator().score(PAIRS)
    assert study.loss == pytest.approx(-sum(each.log_probability for each in scores) / study.target_tokens, abs=1e-4)
    ranked = study.least_important(len(study.heads))
    importance = {each.statistics.head: each.importance or 0.0 for each in study.heads}
    assert [importance[head] for head in ranked] == sorted(importance.values())
    assert study.least_important(2) == ranked[:2]


def test_pairs_to_measure_on_have_two_sides_and_fit(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("the lamp\tthe door\n\tnow\nfar too long\tnow\nwait\tnow\nturn\toff\n")
    asked: list[Pair] = []

    def fits(pairs: Sequence[Pair]) -> list[bool]:
        asked.extend(pairs)
        return [pair.source != "far too long" for pair in pairs]

    pairs, left_out = read_measured_pairs(str(corpus), 4, fits)
    assert pairs == [Pair("the lamp", "the door"), Pair("wait", "now")]
    assert left_out == 2
    assert len(asked) == 4
    with pytest.raises(CorpusError, match="has no pairs to measure on"):
        read_measured_pairs(str(corpus), 4, lambda pairs: [False] * len(pairs))


def test_bleu_is_of_the_translations_with_and_without_the_heads() -> None:
    translator = random_translator()
    off = [Head("encoder_decoder", 0, head) for head in range(4)]

    def translate(lines: list[str]) -> list[str]:
        # Characters as words: a random model says few words, and BLEU counts runs of four.
        return [" ".join(each.text) for each in translator.translate(lines)]

    sources = [source for source, _ in PAIRS]
    whole = translate(sources)
    with heads_off(translator.model, [off]):
        without = translate(sources)
    assert whole != without
    pruned = prune(translator.model, off, list(zip(sources, whole, strict=True)), translate, target_language="en")
    assert pruned.heads == tuple(off)
    assert pruned.before == pytest.approx(100)
    assert pruned.after == translation_metrics(without, whole).bleu < 100
    assert translate(sources) == whole


def test_a_head_must_be_left() -> None:
    study = random_translator().measure_heads(PAIRS)
    assert heads_to_prune(study, 11) == study.least_important(11)
    assert study.removable == 12
    with pytest.raises(SettingsError, match="the model has 12 heads, and one must be left"):
        heads_to_prune(study, 12)
