"""Settings passed to the extension module: all names, ids and the epsilon come from Python, without defaults."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dragoman import native
from dragoman.layers.norms import LayerNorm
from dragoman.models.config.layers import NORM_EPSILON
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.description import load_description
from dragoman.models.storage import load_model
from dragoman.models.transformer import build_transformer
from dragoman.models.weights import open_weights
from dragoman.text.subwords import BOS, EOS, NEVER_GENERATED
from tests.support.native_models import BUILDS, CONFIG, NOT_INSTALLED, native_backend, write_model

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

SETTINGS = native.engine_settings(CONFIG)
SPECIAL_TOKENS: dict[str, Any] = {"bos": BOS, "eos": EOS, "never_generated": NEVER_GENERATED}
SOURCE, TARGET, PREFIX = [5, 9, 33, EOS], [7, 40, 8], [10, 11]


def native_model(
    directory: Path, settings: dict[str, Any] | None = None, special_tokens: dict[str, Any] | None = None
) -> Any:
    """Load the model in `directory` into the extension module, in float32."""
    with open_weights(directory, load_description(directory).model) as file:
        weights = {name: file.read(name) for name in file.names}
    return BUILDS[0].module.Model(
        settings=SETTINGS if settings is None else settings,
        special_tokens=SPECIAL_TOKENS if special_tokens is None else special_tokens,
        weights=weights.get,
        precision="fp32",
    )


def search(model: Any, *, minimum: int = 0, maximum: int = 12) -> list[int]:
    """Return the tokens after PREFIX of the best output for SOURCE."""
    [[(tokens, *_)]] = model.search(
        sources=[SOURCE],
        prefixes=[PREFIX],
        minimum=[minimum],
        maximum=[maximum],
        beam=1,
        n_best=1,
        length_penalty=1.0,
        batch_sentences=1,
        batch_tokens=100,
        threads=1,
        team=1,
        shortlist=None,
    )
    assert tokens[: len(PREFIX)] == PREFIX
    return list(tokens[len(PREFIX) :])


@pytest.mark.parametrize("key", ["norm", "norm_placement", "activation", "positions", "tied_embeddings"])
@pytest.mark.parametrize("name", ["abacus", "", "batch", "relative"])
def test_an_unknown_name_is_an_error(tmp_path: Path, key: str, name: str) -> None:
    write_model(tmp_path)
    with pytest.raises(ValueError, match=f"^unknown {key} '{name}'$"):
        native_model(tmp_path, SETTINGS | {key: name})


def test_an_unknown_precision_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown precision 'int3'"):
        BUILDS[0].module.Model(SETTINGS, SPECIAL_TOKENS, lambda name: None, "int3")


USED = ["source_vocabulary", "target_vocabulary", "encoder_layers", "decoder_layers", "d_model", "heads", "d_ff"]
USED += ["max_positions", "norm", "norm_placement", "norm_epsilon", "activation", "positions", "tied_embeddings"]
USED += ["position_base", "attention_scale"]


@pytest.mark.parametrize("key", USED)
def test_a_missing_setting_is_an_error(tmp_path: Path, key: str) -> None:
    write_model(tmp_path)
    with pytest.raises(ValueError, match=f"^the setting {key} is missing$"):
        native_model(tmp_path, {name: value for name, value in SETTINGS.items() if name != key})


@pytest.mark.parametrize("key", SPECIAL_TOKENS)
def test_a_missing_or_invalid_special_token_is_an_error(tmp_path: Path, key: str) -> None:
    write_model(tmp_path)
    with pytest.raises(ValueError, match=f"^the setting {key} is missing$"):
        native_model(tmp_path, special_tokens={name: value for name, value in SPECIAL_TOKENS.items() if name != key})
    for token in (-1, 70):
        wrong = [token] if key == "never_generated" else token
        with pytest.raises(ValueError, match="a special token is not in the target vocabulary"):
            native_model(tmp_path, special_tokens=SPECIAL_TOKENS | {key: wrong})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_ff": 0}, "sizes must be at least 1"),
        ({"heads": 5}, "heads must divide d_model"),
        ({"d_model": 33, "heads": 3}, "d_model must be even"),
        ({"d_model": 22, "heads": 2, "positions": "rotary"}, "rotary positions need an even d_model / heads"),
        ({"norm_epsilon": 0.0}, "norm_epsilon must be above 0"),
        ({"position_base": 0.5}, "position_base must be at least 1"),
        ({"attention_scale": -1.0}, "attention_scale must be above 0"),
        ({"attention_scale": float("inf")}, "attention_scale must be above 0"),
    ],
)
def test_unsupported_settings_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write_model(tmp_path)
    with pytest.raises(ValueError, match=f"^{message}$"):
        native_model(tmp_path, SETTINGS | changes)


def config_with(field: str, name: str) -> TransformerConfig:
    changes: dict[str, Any] = {field: name}
    return replace(CONFIG, **changes)


def choices(field: str) -> list[str]:
    return list(get_args(get_type_hints(TransformerConfig)[field]))


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (field, name)
        for field in ("norm", "norm_placement", "activation", "positions", "tied_embeddings")
        for name in choices(field)
        if native.unsupported_reason(config_with(field, name)) is None
    ],
)
def test_every_supported_choice_of_a_setting_is_implemented(tmp_path: Path, field: str, name: str) -> None:
    config = write_model(tmp_path, {field: name})
    assert np.isfinite(native_backend(tmp_path, config).logits(SOURCE[:-1], TARGET)).all()


def torch_logits(directory: Path, epsilon: float) -> NDArray[np.float32]:
    """Return the logits [T + 1, V] with the given epsilon in every norm."""
    model = load_model(directory)
    for module in model.modules():
        if isinstance(module, LayerNorm):
            module.eps = epsilon
    source = torch.tensor([SOURCE])
    with torch.no_grad():
        memory = model.encode(source, torch.ones_like(source).bool())
        logits: NDArray[np.float32] = model.decode(torch.tensor([[BOS, *TARGET]]), memory)[0].numpy()
    return logits


def test_norms_use_the_epsilon_passed_from_python(tmp_path: Path) -> None:
    write_model(tmp_path)
    near, far = (
        native_model(tmp_path, SETTINGS | {"norm_epsilon": epsilon}).logits(SOURCE, TARGET)
        for epsilon in (NORM_EPSILON, 0.5)
    )
    np.testing.assert_allclose(near, torch_logits(tmp_path, NORM_EPSILON), atol=1e-3)
    np.testing.assert_allclose(far, torch_logits(tmp_path, 0.5), atol=1e-3)
    assert np.abs(near - far).max() > 0.1


def test_torch_builds_its_norms_with_the_same_epsilon() -> None:
    for norm in ("layer", "rms"):
        model = build_transformer(replace(CONFIG, norm=norm, norm_placement="pre"))
        epsilons = {module.eps for module in model.modules() if hasattr(module, "eps")}
        assert epsilons == {NORM_EPSILON}


def test_an_output_begins_with_the_bos_passed_from_python(tmp_path: Path) -> None:
    write_model(tmp_path)
    usual, other = native_model(tmp_path), native_model(tmp_path, special_tokens=SPECIAL_TOKENS | {"bos": TARGET[0]})
    assert not np.array_equal(usual.logits(SOURCE, [])[0], other.logits(SOURCE, [])[0])


def test_an_output_ends_with_the_eos_passed_from_python(tmp_path: Path) -> None:
    write_model(tmp_path)
    end = search(native_model(tmp_path), minimum=6)[0]
    excluded = [*NEVER_GENERATED, EOS]
    other = search(native_model(tmp_path, special_tokens={"bos": BOS, "eos": end, "never_generated": excluded}))
    assert other == []


def test_excluded_tokens_are_never_generated(tmp_path: Path) -> None:
    write_model(tmp_path)
    first = search(native_model(tmp_path), minimum=6)[0]
    excluded = [*NEVER_GENERATED, first]
    output = search(native_model(tmp_path, special_tokens=SPECIAL_TOKENS | {"never_generated": excluded}), minimum=12)
    assert len(PREFIX) + len(output) == 12
    assert not set(output) & set(excluded)


@pytest.mark.parametrize(
    ("always", "likely", "starts", "message"),
    [
        ([4], [5], [0, 1], "does not allow the end-of-sentence token"),
        ([EOS, 70], [5], [0, 1], "vocabulary"),
        ([EOS], [-1], [0, 1], "vocabulary"),
        ([EOS], [5, 6], [0, 1], "not consecutive"),
        ([EOS], [5, 6], [0, 3, 2], "not consecutive"),
        ([EOS], [5, 6], [], "not consecutive"),
    ],
)
def test_an_invalid_shortlist_is_refused(
    tmp_path: Path, always: list[int], likely: list[int], starts: list[int], message: str
) -> None:
    write_model(tmp_path)
    with pytest.raises(ValueError, match=message):
        native_model(tmp_path).shortlist(always, likely, starts)
