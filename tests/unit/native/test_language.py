"""Language models of the native engine equal those of torch; what the engine does not support is refused by name."""

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from dragoman import native
from dragoman.errors import CorpusError, SettingsError
from dragoman.models.config.language import LanguageConfig
from dragoman.models.registry import text_preset
from dragoman.models.storage import load_language_model
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.native import engine_settings
from dragoman.native.language_backend import NativeLanguageModel, NativeTextState
from dragoman.search.config import ContinuationConfig, SamplingConfig
from dragoman.search.sampling import draw, penalise_repetition
from dragoman.text.subwords import EOS, NEVER_GENERATED
from tests.support.native_language import CONFIG, native_model, random_tokens, torch_logits, write_language_model
from tests.support.native_models import BUILDS, NOT_INSTALLED

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "rms", "activation": "swiglu", "d_ff": 43},
    {"norm_placement": "post", "positions": "sinusoidal", "activation": "relu", "attention_bias": True},
    {"positions": "learned", "activation": "gelu_tanh", "tied_embeddings": False, "norm_epsilon": 1e-2, "d_model": 128},
    {"positions": "none", "activation": "geglu", "d_model": 36, "heads": 3, "vocabulary": 131},
    {"attention_scale": 0.5, "position_base": 500.0},
]
# Limit of the root mean square error of logits, relative to their standard deviation.
TOLERANCE: dict[native.Precision, float] = {"fp32": 1e-5, "bf16": 0.05, "int8": 0.15}


def error(logits: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    return float(np.sqrt(((logits - expected) ** 2).mean()) / expected.std())


def read_in_pieces(
    model: NativeLanguageModel, tokens: NDArray[np.int64], lengths: list[int]
) -> tuple[NDArray[np.float32], NativeTextState]:
    """Return the logits after each token, which are read in pieces of these lengths."""
    logits, state, start = [], model.start(len(tokens)), 0
    for length in lengths:
        piece, state = model.read_all(tokens[:, start : start + length], state)
        logits.append(piece)
        start += length
    assert start == tokens.shape[1]
    return np.concatenate(logits, axis=1), state


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
@pytest.mark.parametrize("precision", native.PRECISIONS)
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_logits_equal_those_of_torch(
    tmp_path: Path, changes: dict[str, Any], precision: native.Precision, build: native.Build
) -> None:
    """At once, in pieces, and token by token."""
    config = write_language_model(tmp_path, changes)
    tokens = random_tokens(3, 40)
    expected = torch_logits(tmp_path, tokens)
    model = NativeLanguageModel(tmp_path, config, build, precision)
    for lengths in ([40], [1] * 40, [9, 1, 1, 5, 24]):
        logits, state = read_in_pieces(model, tokens, lengths)
        assert error(logits, expected) < TOLERANCE[precision]
        assert state.lengths == [40] * 3
    last, _ = model.read(tokens, model.start(3))
    assert error(last, expected[:, -1]) < TOLERANCE[precision]


def test_a_long_context_equals_that_of_torch(tmp_path: Path) -> None:
    """Longer than what the engine reads at once."""
    config = write_language_model(tmp_path)
    tokens = random_tokens(1, 700)
    logits, _ = read_in_pieces(native_model(tmp_path, config), tokens, [1, 600, 99])
    assert error(logits, torch_logits(tmp_path, tokens)) < 1e-5


def choices(field: str) -> list[Any]:
    return list(get_args(get_type_hints(LanguageConfig)[field])) if field != "tied_embeddings" else [True, False]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (field, value)
        for field in ("norm", "norm_placement", "activation", "positions", "tied_embeddings")
        for value in choices(field)
        if (field, value) != ("norm", "batch")
    ],
)
def test_every_choice_of_a_setting_is_implemented_or_refused(tmp_path: Path, field: str, value: Any) -> None:
    config = write_language_model(tmp_path, {field: value})
    if reason := native.unsupported_reason(config):
        assert value in reason
        with pytest.raises(SettingsError, match=f"does not support this model: {reason}; use the torch engine"):
            native_model(tmp_path, config)
    else:
        model = native_model(tmp_path, config)
        logits, _ = model.read_all(random_tokens(1, 9), model.start(1))
        assert error(logits, torch_logits(tmp_path, random_tokens(1, 9))) < 1e-5


def test_why_a_language_model_is_not_supported() -> None:
    assert native.unsupported_reason(CONFIG) is None
    assert native.unsupported_reason(replace(CONFIG, d_k=16)) == "its d_k is 16, not d_model / heads"
    assert native.unsupported_reason(replace(CONFIG, positions="relative")) == "it has relative positions"
    assert native.unsupported_reason(replace(CONFIG, d_v=16)) == "its d_v is 16, not d_model / heads"
    local, mixed = replace(CONFIG, attention_pattern=("local",)), replace(CONFIG, attention_pattern=("full", "local"))
    assert native.unsupported_reason(local) == "it has local attention"
    assert native.unsupported_reason(mixed) == "it has full and local attention"
    recurrent = text_preset("tiny", 70, architecture="recurrent-language")
    assert native.unsupported_reason(recurrent) == "its architecture is recurrent-language"


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_a_text_does_not_depend_on_the_others(tmp_path: Path, precision: native.Precision) -> None:
    """Bit for bit, for any number of texts and threads."""
    config = write_language_model(tmp_path, {"d_model": 128})
    tokens = random_tokens(40, 21)
    model = native_model(tmp_path, config, precision, threads=1)
    together, _ = read_in_pieces(model, tokens, [17, 1, 1, 2])
    for row in (0, 17, 39):
        alone, _ = read_in_pieces(model, tokens[row : row + 1], [17, 1, 1, 2])
        assert np.array_equal(alone[0], together[row])
    for threads in (2, 3, 64):
        shared = native_model(tmp_path, config, precision, threads=threads, shared_bytes=0, thread_bytes=0)
        assert np.array_equal(read_in_pieces(shared, tokens, [17, 1, 1, 2])[0], together)
        assert np.array_equal(read_in_pieces(shared, tokens[:1], [17, 1, 1, 2])[0], together[:1])


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_states_branch(tmp_path: Path, precision: native.Precision) -> None:
    """Rows may repeat or drop; a state remains as it was, whatever is read after it."""
    config = write_language_model(tmp_path)
    model = native_model(tmp_path, config, precision)
    tokens = random_tokens(3, 19)
    _, start = model.read(tokens, model.start(3))
    rows = [2, 0, 0, 2, 2]
    branches = random_tokens(5, 20, seed=1)
    state = start.reorder(np.array(rows))
    logits = []
    for step in range(20):
        each, state = model.step(branches[:, step], state)
        logits.append(each)
    expected, _ = read_in_pieces(model, np.concatenate([tokens[rows], branches], axis=1), [19, *[1] * 20])
    assert np.array_equal(np.stack(logits, axis=1), expected[:, 19:])
    # The first state is continued a second time.
    assert start.lengths == [19] * 3
    once, _ = model.step(branches[:3, 0], start)
    other, _ = model.step(branches[:3, 1], start)
    again, _ = model.step(branches[:3, 0], start)
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
    assert start.reorder([]).lengths == []


@pytest.mark.parametrize("kept", [0, 1, 20, 33, 100])
def test_forgotten_positions_equal_those_of_torch(tmp_path: Path, kept: int) -> None:
    config = write_language_model(tmp_path)
    tokens = random_tokens(2, 50)
    model, reference = native_model(tmp_path, config), load_language_model(tmp_path)
    _, state = model.read(tokens[:, :35], model.start(2))
    with torch.no_grad():
        _, torch_state = reference.read(torch.from_numpy(tokens[:, :35]), reference.start(2))
        torch_state = torch_state.last(kept)  # type: ignore[attr-defined]
        states, _ = reference.read(torch.from_numpy(tokens[:, 35:]), torch_state)
        expected = reference.project(states).numpy()
    for lengths in ([15], [1] * 15):
        after, logits, start = state.last(kept), [], 35
        for length in lengths:
            each, after = model.read_all(tokens[:, start : start + length], after)
            logits.append(each)
            start += length
        assert error(np.concatenate(logits, axis=1), expected) < 1e-5
    assert state.last(kept).lengths == [35, 35]


def test_scores_are_log_probabilities(tmp_path: Path) -> None:
    config = write_language_model(tmp_path)
    tokens = random_tokens(3, 41)
    model = native_model(tmp_path, config)
    scores, state = model.score(tokens[:, :-1], tokens[:, 1:], model.start(3))
    expected = torch.from_numpy(torch_logits(tmp_path, tokens[:, :-1])).log_softmax(-1)
    np.testing.assert_allclose(
        scores, expected.gather(-1, torch.from_numpy(tokens[:, 1:, None])).squeeze(-1), atol=1e-4
    )
    assert state.lengths == [40] * 3


SAMPLINGS = [
    ContinuationConfig(),
    ContinuationConfig(sampling=SamplingConfig(temperature=0.7, top_k=5)),
    ContinuationConfig(sampling=SamplingConfig(temperature=1.5, top_p=0.8)),
    ContinuationConfig(sampling=SamplingConfig(top_k=30, top_p=0.9, min_p=0.02), repetition_penalty=1.3),
    ContinuationConfig(sampling=SamplingConfig(top_k=1000, min_p=1.0)),
    ContinuationConfig(beam=1),
    ContinuationConfig(beam=1, repetition_penalty=1.5),
]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("config", SAMPLINGS, ids=str)
def test_generated_tokens_equal_those_of_the_sampler_in_torch(
    tmp_path: Path, config: ContinuationConfig, precision: native.Precision
) -> None:
    B, T = 5, 40
    model = native_model(tmp_path, write_language_model(tmp_path), precision)
    prompt, uniforms = random_tokens(B, 6), np.random.default_rng(1).random((B, T))
    occurred = np.zeros((B, 70), dtype=np.bool_)
    np.put_along_axis(occurred, prompt, True, 1)
    _, start = model.read(prompt[:, :-1], model.start(B))
    expected, scores = np.full((B, T), EOS), np.zeros((B, T), dtype=np.float32)
    for row in range(B):
        token, state, seen = prompt[row, -1:], start.reorder([row]), torch.from_numpy(occurred[row : row + 1].copy())
        for t in range(T):
            logits, state = model.step(token, state)
            allowed = torch.from_numpy(logits)
            log_probabilities = allowed.log_softmax(-1)
            allowed = penalise_repetition(allowed, seen, config.repetition_penalty).clone()
            allowed[:, list(NEVER_GENERATED)] = -torch.inf
            uniform = torch.from_numpy(uniforms[row, t : t + 1])
            chosen = allowed.argmax(-1) if config.beam == 1 else draw(allowed, uniform, config.sampling)
            token = chosen.numpy()
            seen[0, token] = True
            expected[row, t], scores[row, t] = token[0], log_probabilities[0, token[0]]
            if token[0] == EOS:
                break
    generated = model.generate(prompt[:, -1], start, uniforms, config, occurred)
    assert generated.tokens.tolist() == expected.tolist()
    np.testing.assert_allclose(generated.log_probabilities, scores, atol=1e-4)
    assert generated.tokens.dtype == np.int64
    # In two calls.
    first = model.generate(prompt[:, -1], start, uniforms[:, :13], config, occurred)
    np.put_along_axis(occurred, first.tokens, True, 1)
    second = model.generate(first.tokens[:, -1], first.state, uniforms[:, 13:], config, occurred)
    running = (first.tokens != EOS).all(1)
    assert first.tokens.tolist() == expected[:, :13].tolist()
    assert second.tokens[running].tolist() == expected[running, 13:].tolist()


def test_a_text_that_ends_is_not_continued(tmp_path: Path) -> None:
    config = write_language_model(tmp_path, {"tied_embeddings": False})
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    model = native_model(tmp_path, config)
    tokens, uniforms = random_tokens(4, 3), np.random.default_rng(0).random((4, 30))
    before = model.generate(tokens[:, 0], model.start(4), uniforms, ContinuationConfig())
    assert (before.tokens != EOS).all(1).any()
    tensors["output.weight"][EOS] = tensors["output.weight"][5] * 1.2
    save_file(tensors, tmp_path / WEIGHTS_FILE)
    model = native_model(tmp_path, config)
    generated = model.generate(tokens[:, 0], model.start(4), uniforms, ContinuationConfig())
    lengths = [row.index(EOS) + 1 if EOS in row else 30 for row in generated.tokens.tolist()]
    assert min(lengths) < 20
    assert generated.state.lengths == lengths
    for row, length in enumerate(lengths):
        assert (generated.tokens[row, length - 1 :] == EOS).all() or length == 30
        assert (generated.log_probabilities[row, :length] < 0).all()
        assert (generated.log_probabilities[row, length:] == 0).all()


def test_generation_in_several_threads_changes_nothing(tmp_path: Path) -> None:
    config = write_language_model(tmp_path)
    tokens, uniforms = random_tokens(7, 1)[:, 0], np.random.default_rng(0).random((7, 20))
    model = native_model(tmp_path, config, "int8", threads=1)
    alone = model.generate(tokens, model.start(7), uniforms, ContinuationConfig())
    several = native_model(tmp_path, config, "int8", threads=3, thread_bytes=0)
    together = several.generate(tokens, several.start(7), uniforms, ContinuationConfig())
    assert np.array_equal(alone.tokens, together.tokens)
    assert np.array_equal(alone.log_probabilities, together.log_probabilities)


def test_a_text_longer_than_the_learned_positions_is_an_error(tmp_path: Path) -> None:
    config = write_language_model(tmp_path, {"positions": "learned", "max_positions": 20})
    model = native_model(tmp_path, config)
    assert model.max_context == 20
    tokens = random_tokens(2, 21)
    logits, state = model.read(tokens[:, :18], model.start(2))
    for call in (
        lambda: model.read(tokens[:, :3], state),
        lambda: model.score(tokens[:, :3], tokens[:, :3], state),
        lambda: model.generate(tokens[:, 0], state, np.full((2, 3), 0.5), ContinuationConfig()),
    ):
        with pytest.raises(CorpusError, match="20 learned positions of the model: shorten the text"):
            call()
    # The state is as before.
    logits, state = model.read_all(tokens[:, 18:20], state)
    assert error(logits, torch_logits(tmp_path, tokens[:, :20])[:, 18:]) < 1e-5


def load(changes: dict[str, Any], weights: dict[str, NDArray[np.float32]] | None = None) -> Any:
    return BUILDS[0].module.LanguageModel(
        settings=engine_settings(CONFIG) | changes, weights=(weights or {}).get, precision="fp32"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": 0}, "sizes must be at least 1"),
        ({"vocabulary": 2**25}, "vocabularies and max_positions must be at most 16777216"),
        ({"layers": 0}, "sizes must be at least 1"),
        ({"layers": 2**20}, "layers must be at most 65536"),
        ({"heads": 5}, "heads must divide d_model"),
        ({"d_ff": 65_537}, "d_model and d_ff must be at most 65536"),
        ({"norm_epsilon": 0.0}, "norm_epsilon must be above 0"),
        ({"tied_embeddings": "no"}, "tied_embeddings is out of range or of another type"),
        ({"norm": "batch"}, "unknown norm 'batch'"),
        ({"positions": "relative"}, "unknown positions 'relative'"),
        ({"activation": "tanh"}, "unknown activation 'tanh'"),
        ({}, "the weight embedding.tokens.weight is missing"),
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        load(changes)
    if changes:
        [key] = changes
        with pytest.raises(ValueError, match=f"^the setting {key} is missing$"):
            BUILDS[0].module.LanguageModel(
                settings={name: value for name, value in engine_settings(CONFIG).items() if name != key},
                weights={}.get,
                precision="fp32",
            )


def test_arguments_out_of_range_are_refused(tmp_path: Path) -> None:
    """No argument from Python corrupts memory."""
    config = write_language_model(tmp_path)
    model, other = native_model(tmp_path, config), native_model(tmp_path, config)
    state, tokens = model.start(2), random_tokens(2, 3)
    for wrong, message in (
        (tokens + 70, "a token is not in the vocabulary"),
        (tokens - 70, "a token is not in the vocabulary"),
        (tokens + 2**40, "a token is not in the vocabulary"),
        (tokens[:1], "the state has 2 rows, not 1"),
        (tokens[:, :0], "there are no tokens to read"),
    ):
        with pytest.raises(ValueError, match=message):
            model.read(wrong, state)
    with pytest.raises(TypeError):
        model._model.read(tokens + 0.5, state.inner, all=True, threads=1, team=1)
    with pytest.raises(ValueError, match="two dimensions"):
        model._model.read(tokens[0], state.inner, all=True, threads=1, team=1)
    with pytest.raises(ValueError, match="the state belongs to another model"):
        model.read(tokens, other.start(2))
    with pytest.raises(ValueError, match="different shapes"):
        model.score(tokens, tokens[:, :2], state)
    for row in (2, -1):
        with pytest.raises(ValueError, match="a row is not in the state"):
            state.reorder([row])
    for rows in (-1, 2**31 - 1):
        with pytest.raises(ValueError, match="rows must lie between"):
            model.start(rows)
    with pytest.raises(ValueError, match="positions must lie between"):
        state.last(-1)
    for threads in (0, 2**20):
        for name in ("threads", "team"):
            with pytest.raises(ValueError, match=f"{name} must lie between"):
                model._model.read(tokens, state.inner, all=True, **({"threads": 1, "team": 1} | {name: threads}))
    with pytest.raises(SettingsError, match="threads must lie between 1 and 4,096, got 0"):
        native_model(tmp_path, config, threads=0)


def test_arguments_of_generation_out_of_range_are_refused(tmp_path: Path) -> None:
    model = native_model(tmp_path, write_language_model(tmp_path))
    usual: dict[str, Any] = {
        "uniforms": np.zeros((2, 3)),
        "sampling": {"greedy": False, "temperature": 1.0, "top_k": 70, "top_p": 1.0, "min_p": 0.0}
        | {"repetition_penalty": 1.5},
        "occurred": np.zeros((2, 70), dtype=np.bool_),
        "never": [0, 1, 2],
        "end": 3,
        "threads": 1,
        "team": 1,
    }

    def generate(changes: dict[str, Any]) -> Any:
        return model._model.generate(np.array([5, 6]), model.start(2).inner, **usual | changes)

    generate({})
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"uniforms": np.ones((2, 3))}, r"a random number is not in \[0, 1\)"),
        ({"uniforms": np.full((2, 3), np.nan)}, r"a random number is not in \[0, 1\)"),
        ({"uniforms": np.zeros((3, 3))}, "different shapes"),
        ({"uniforms": np.zeros(2)}, "different shapes"),
        ({"occurred": None}, "the tokens that occurred must have"),
        ({"occurred": np.zeros((2, 69), dtype=np.bool_)}, "the tokens that occurred must have"),
        ({"never": [70]}, "a token is not in the vocabulary"),
        ({"never": list(range(70))}, "all tokens of the vocabulary are excluded"),
        *(
            ({"sampling": usual["sampling"] | {name: value}}, name)
            for name, value in (
                ("temperature", 0.0),
                ("temperature", np.inf),
                ("top_k", -1),
                ("top_p", 0.0),
                ("min_p", 1.1),
                ("repetition_penalty", 0.5),
                ("greedy", "yes"),
            )
        ),
    ]
    for changes, message in wrong:
        with pytest.raises(ValueError, match=message):
            generate(changes)


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_an_overflow_is_an_error(tmp_path: Path, precision: native.Precision) -> None:
    config = write_language_model(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    save_file(
        {name: tensor * (5e18 if "norm" in name else 1) for name, tensor in tensors.items()}, tmp_path / WEIGHTS_FILE
    )
    model, tokens = native_model(tmp_path, config, precision), random_tokens(1, 9)
    for call in (
        lambda: model.read(tokens, model.start(1)),
        lambda: model.score(tokens, tokens, model.start(1)),
        lambda: model.generate(tokens[:, 0], model.start(1), np.full((1, 3), 0.5), ContinuationConfig()),
    ):
        with pytest.raises(FloatingPointError, match="not finite"):
            call()


def test_an_interrupt_ends_a_long_call(tmp_path: Path) -> None:
    model = native_model(tmp_path, write_language_model(tmp_path, {"d_model": 128, "d_ff": 512}), thread_bytes=0)
    interrupt = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    # If the tests run in the background, the shell makes them ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            model.read(random_tokens(1, 200_000), model.start(1))
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)
