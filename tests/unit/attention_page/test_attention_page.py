"""The attention page as a file: contents, size, and safety against hostile text."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from dragoman.attention_page.arrays import AttentionArrays
from dragoman.attention_page.map import AttentionMap
from dragoman.attention_page.page import LONGEST, build_page
from dragoman.errors import CorpusError
from tests.support.elements import Elements
from tests.support.made_attention import made_attention


def payload_of(page: str) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(Elements(page).text("script", id="payload"))
    return payload


def numbers(payload: dict[str, Any], span: tuple[int, int]) -> Float[np.ndarray, ...]:
    """Return the values of a span of the packed numbers: high bytes first, then low bytes."""
    data = np.frombuffer(zlib.decompress(base64.b64decode(payload["numbers"])), dtype=np.uint8)
    first, count = span
    high, low = data[2 * first : 2 * first + 2 * count].reshape(2, count)
    return ((high.astype("<u2") << 8) | low).view("<f2")


def tokens(count: int) -> list[str]:
    return [f"▁word{number}" for number in range(count)]


def test_the_page_of_forty_tokens_has_less_than_three_megabytes() -> None:
    sentence = tokens(40)
    text = " ".join(sentence)
    attention = made_attention(
        [*sentence, "</s>"], sentence, text=text, translation=text, layers=6, heads=8, width=64, bias=True
    )
    assert len(build_page(attention).encode()) < 3_000_000


def test_the_page_contains_the_numbers_of_the_map() -> None:
    attention = made_attention(bias=True)
    payload = payload_of(build_page(attention))
    for kind, arrays in attention.kinds():
        entry = payload["kinds"][kind]
        details = arrays.details
        assert details is not None
        expected = {"weights": arrays.weights, "query": details.query, "key": details.key, "bias": details.bias}
        for name, array in expected.items():
            if array is None:
                assert entry[name] is None
                continue
            if kind == "decoder_self" and name in ("weights", "bias"):
                # Only the keys that a causal query may attend to, row by row.
                array = np.concatenate([array[..., row, : row + 1] for row in range(array.shape[-1])], axis=-1)
            np.testing.assert_allclose(numbers(payload, entry[name]), array.ravel(), rtol=2e-3, atol=1e-6)
    assert payload["rows"]["source"]["words"] == ["The", "lamp", "was", "bright.", "</s>"]
    assert payload["candidates"][0] == [["▁Die", 0.625], ["▁the", 0.25]]
    assert payload["without"][1]["logProbability"] == pytest.approx(attention.without[1].log_probability, abs=1e-6)


def test_the_page_loads_nothing() -> None:
    page = build_page(made_attention())
    elements = Elements(page)
    for tag, attributes in elements.start_tags:
        assert "src" not in attributes
        assert attributes.get("href", "data:,") == "data:,"
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    style = elements.text("style")
    assert "url(" not in style
    assert "@import" not in style
    scripts = [text for text, (tag, _) in zip(elements.texts, elements.start_tags, strict=True) if tag == "script"]
    assert len(scripts) == 3
    assert "{{" not in page
    for word in ("innerHTML", "insertAdjacentHTML", "document.write", ".html(", "eval(", "fetch(", "import("):
        assert word not in scripts[2]


def test_the_page_contains_the_licence_of_d3() -> None:
    script = Elements(build_page(made_attention())).texts
    [d3] = [text for text in script if "https://d3js.org" in text]
    assert "Permission to use, copy, modify, and/or distribute" in d3
    assert "Mike Bostock" in d3


def test_the_security_policy_precedes_styles_and_scripts() -> None:
    names = [
        (tag, attributes.get("http-equiv")) for tag, attributes in Elements(build_page(made_attention())).start_tags
    ]
    policy = names.index(("meta", "Content-Security-Policy"))
    assert policy < min(index for index, (tag, _) in enumerate(names) if tag in ("style", "script", "title", "link"))


@pytest.mark.parametrize(
    "hostile", ["</script><script>alert(1)</script>", "<!--<script>", "{{style}}", "&lt;", "\u2028"]
)
def test_hostile_text_does_not_open_or_close_elements(hostile: str) -> None:
    plain = Elements(build_page(made_attention()))
    page = build_page(
        made_attention(
            [hostile, "b", "c", "d", "e", "f", "g"], [hostile], text=hostile, translation=hostile, others=[hostile]
        )
    )
    elements = Elements(page)
    assert elements.start_tags == plain.start_tags
    assert elements.text("style") == plain.text("style")
    assert elements.text("title") == f"Attention: {hostile}\n"
    written = elements.text("script", id="payload")
    assert not {"<", ">", "&"} & set(written)
    payload = json.loads(written)
    assert payload["text"] == payload["rows"]["source"]["tokens"][0] == payload["candidates"][0][1][0] == hostile
    assert payload["without"][0]["translation"] == hostile


def test_lone_surrogates_in_text_can_be_written() -> None:
    page = build_page(made_attention(text="\ud800 half", translation="\udfff"))
    page.encode()
    assert payload_of(page)["text"] == "\ud800 half"


@pytest.mark.parametrize("side", ["source", "output"])
def test_a_sentence_that_is_too_long_is_rejected(side: str) -> None:
    def map_of(count: int) -> AttentionMap:
        few, many = tokens(1), tokens(count)
        source, output = (many, few) if side == "source" else (few, many[1:])
        return made_attention(source, output, layers=1, heads=1, details=False, extras=False)

    build_page(map_of(LONGEST))
    name = "text" if side == "source" else "translation"
    with pytest.raises(CorpusError, match=f"the {name} has {LONGEST + 1} tokens, and a page shows at most {LONGEST}"):
        build_page(map_of(LONGEST + 1))


def test_values_that_are_not_finite_do_not_break_the_page() -> None:
    broken = AttentionMap(
        text="a",
        translation="b",
        source=("a", "</s>"),
        target=("<s>", "b"),
        predicted=("b", "</s>"),
        encoder_self=None,
        decoder_self=None,
        encoder_decoder=AttentionArrays(np.array([[[[np.nan, -1e30], [1e30, 1.0]]]])),
        log_probability=-np.inf,
    )
    payload = payload_of(build_page(broken))
    assert payload["logProbability"] is None
    [*_, last] = numbers(payload, payload["kinds"]["encoder_decoder"]["weights"])
    assert last == 1.0
