"""Measurements of heads over a corpus, and BLEU with several heads switched off."""

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


def test_statistics_are_means_over_queries_and_importance_is_the_change_of_the_loss() -> None:
    model = random_models(1)[0]
    pairs = [
        IdPair(source, target, tuple(tokenizer().source_texts(source)), tuple(tokenizer().target_texts(target)))
        for source, target in zip(
            tokenizer().encode_source([source for source, _ in PAIRS]),
            tokenizer().encode_target([target for _, target in PAIRS]),
            strict=True,
        )
    ]
    progress: list[tuple[int, int]] = []
    measurements = measure_heads(
        model, [pairs[:2], pairs[2:]], on_progress=lambda done, passes: progress.append((done, passes))
    )
    alone = measure_heads(model, [[pair] for pair in pairs], on_progress=lambda *_: None)
    assert progress[-1] == (len(measurements.heads) + 2, len(measurements.heads) + 2)
    assert measurements.sentences == 3
    assert measurements.target_tokens == sum(len(pair.target) + 1 for pair in pairs)
    assert {each.statistics.head for each in measurements.heads} == {
        Head(kind, 0, head) for kind in ("encoder_self", "decoder_self", "encoder_decoder") for head in range(4)
    }
    for one, other in zip(measurements.heads, alone.heads, strict=True):
        assert one.statistics.entropy == pytest.approx(other.statistics.entropy, abs=1e-4)
        assert one.importance == pytest.approx(other.importance, abs=1e-4)
    scores = random_translator().score(PAIRS)
    assert measurements.loss == pytest.approx(
        -sum(each.log_probability for each in scores) / measurements.target_tokens, abs=1e-4
    )
    ranked = measurements.least_important(len(measurements.heads))
    importance = {each.statistics.head: each.importance or 0.0 for each in measurements.heads}
    assert [importance[head] for head in ranked] == sorted(importance.values())
    assert measurements.least_important(2) == ranked[:2]


def test_measured_pairs_have_two_sides_and_fit(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("the lamp\tthe door\n\tnow\nfar too long\tnow\nwait\tnow\nturn\toff\n")
    checked: list[Pair] = []

    def fits(pairs: Sequence[Pair]) -> list[bool]:
        checked.extend(pairs)
        return [pair.source != "far too long" for pair in pairs]

    pairs, left_out = read_measured_pairs(str(corpus), 4, fits)
    assert pairs == [Pair("the lamp", "the door"), Pair("wait", "now")]
    assert left_out == 2
    assert len(checked) == 4
    with pytest.raises(CorpusError, match="has no pairs to measure the heads on"):
        read_measured_pairs(str(corpus), 4, lambda pairs: [False] * len(pairs))


def test_bleu_with_and_without_heads() -> None:
    translator = random_translator()
    off = [Head("encoder_decoder", 0, head) for head in range(4)]

    def translate(lines: list[str]) -> list[str]:
        # Use characters as words: a random model generates few words, and BLEU counts 4-grams.
        return [" ".join(each.text) for each in translator.translate(lines)]

    sources = [source for source, _ in PAIRS]
    with_all = translate(sources)
    with heads_off(translator.model, [off]):
        without = translate(sources)
    assert with_all != without
    pruned = prune(translator.model, off, list(zip(sources, with_all, strict=True)), translate, target_language="en")
    assert pruned.heads == tuple(off)
    assert pruned.before == pytest.approx(100)
    assert pruned.after == translation_metrics(without, with_all).bleu < 100
    assert translate(sources) == with_all


def test_one_head_must_be_left() -> None:
    measurements = random_translator().measure_heads(PAIRS)
    assert heads_to_prune(measurements, 11) == measurements.least_important(11)
    assert measurements.removable == 12
    with pytest.raises(SettingsError, match="the model has 12, and one must be left"):
        heads_to_prune(measurements, 12)
