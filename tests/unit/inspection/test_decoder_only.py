"""Attention of a decoder-only translation model, which reads source and target as one text."""

import json
import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from dragoman.attention_page.kinds import Head
from dragoman.attention_page.page import build_page
from dragoman.data.batching import collate
from dragoman.inspection.capture import capture, capture_texts
from dragoman.inspection.rows import target_log_probabilities
from dragoman.models.decoder_only import DecoderOnly
from dragoman.models.inference import inference
from dragoman.models.registry import build_model
from dragoman.text.subwords import BOS, EOS
from dragoman.translation.translator import Translator
from tests.support.small_translator import tokenizer
from tests.support.variants import VARIANTS

EACH_VARIANT = pytest.mark.parametrize("variant", [name for name in VARIANTS if name.startswith("decoder-only")])
PAIRS = [([5, 6, 7, 8, 9], [6, 7]), ([10], []), ([11, 12, 5], [5, 8, 9, 10, 11])]


@cache
def model(variant: str) -> DecoderOnly:
    torch.manual_seed(0)
    size = tokenizer().source_size
    config = replace(VARIANTS[variant], source_vocabulary=size, target_vocabulary=size)
    built = build_model(config)
    assert isinstance(built, DecoderOnly)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return built


def translator(variant: str) -> Translator:
    return Translator.from_parts([model(variant)], tokenizer(), max_source_tokens=20)


@EACH_VARIANT
def test_captured_weights_are_those_of_the_text_of_source_and_target(variant: str) -> None:
    sources, targets = zip(*PAIRS, strict=True)
    for (source, target), captured in zip(PAIRS, capture(model(variant), sources, targets), strict=True):
        assert captured.target == tuple(target)
        assert captured.encoder_self is captured.encoder_decoder is None
        [expected] = capture_texts(model(variant).text, [[*source, EOS, BOS, *target]])
        assert captured.decoder_self is not None
        assert expected.decoder_self is not None
        assert captured.decoder_self.weights.shape[2] == len(source) + len(target) + 2
        np.testing.assert_allclose(captured.decoder_self.weights, expected.decoder_self.weights, atol=1e-6)


def test_the_map_of_a_pair_has_both_sides_as_one_text() -> None:
    shown = translator("decoder-only, full").attention("the lamp", "the door", candidates=3, without_heads=True)
    [source], [target] = tokenizer().encode_source(["the lamp"]), tokenizer().encode_target(["the door"])
    middle = tokenizer().source_texts(source), tokenizer().target_texts(target)
    assert (shown.source, shown.target) == ((), (*middle[0], "</s>", "<s>", *middle[1]))
    assert shown.predicted == (*shown.target[1:], "</s>")
    assert shown.decoder_self is not None
    assert shown.decoder_self.weights.shape[2:] == (len(shown.target), len(shown.target))
    assert len(shown.candidates) == len(shown.predicted)
    # The last candidates are those of the search.
    built = model("decoder-only, full")
    with inference([built]):
        batch = collate([source], [target])
        logits = built.decode(batch.target_in, built.encode(batch.source, batch.source_mask), batch.target_mask)[0]
    for expected, candidates in zip(logits.softmax(-1), shown.candidates[len(source) + 1 :], strict=True):
        found = [candidate.probability for candidate in candidates]
        np.testing.assert_allclose(found, expected.topk(3).values, rtol=1e-4)
    assert shown.log_probability == pytest.approx(target_log_probabilities(built, [source], [target])[0], abs=1e-4)


def test_heads_can_be_switched_off() -> None:
    variant = "decoder-only, full"
    shown = translator(variant).attention("the lamp", "the door", without_heads=True)
    assert [each.head for each in shown.without] == [Head("decoder_self", n, h) for n in range(2) for h in range(2)]
    for each in shown.without:
        _, log_probability = translator(variant).translate_without(shown, [each.head])
        assert log_probability == pytest.approx(each.log_probability, abs=1e-4)
        assert not math.isclose(log_probability, shown.log_probability or 0.0, abs_tol=1e-4)
    measured = translator(variant).measure_heads([("the lamp", "the door"), ("open", "closed now")])
    assert {head.statistics.head for head in measured.heads} == {each.head for each in shown.without}
    assert all(head.importance for head in measured.heads)


def test_the_page_says_that_the_text_is_a_source_and_its_translation() -> None:
    page = build_page(translator("decoder-only, full").attention("the lamp", "the door"))
    payload = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)
    assert payload
    values = json.loads(payload[1])
    assert (values["isText"], values["translates"]) == (True, True)
    assert (values["text"], values["translation"]) == ("the lamp", "the door")
