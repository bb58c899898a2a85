"""Compare language models on characters with a plain GPT loop in torch: training speed, generation speed, loss.

    python benchmarks/language.py speed TEXT            training and generation speed, in turns, same shape
    python benchmarks/language.py loss TEXT --steps 2000 [--plain]
                                                        validation loss of the same shape after the same updates
    python benchmarks/language.py loss TEXT --recipe recipes/characters-3-minutes.toml

TEXT is a file such as tinyshakespeare's input.txt, of which the last tenth is held out. The shape is that of nanoGPT's
setting for a CPU: 4 layers, 4 heads, 128 wide, context 64, batches of 12 windows, no dropout. The last line is JSON and
begins with the ratio to the plain loop, or to its published loss.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import plain_gpt
import torch

from dragoman import __version__
from dragoman.data.batching import Cursor
from dragoman.data.token_stream import TokenStream
from dragoman.device import select_precision, tune_cpu
from dragoman.generation.generator import Generator
from dragoman.models.config.language import LanguageConfig
from dragoman.models.registry import build_language_model
from dragoman.run.train import train
from dragoman.search.config import ContinuationConfig, SamplingConfig
from dragoman.settings import load_toml, merge
from dragoman.training.config import TrainingConfig
from dragoman.training.gradients import accumulate_gradients
from dragoman.training.language_objective import LanguageLosses
from dragoman.training.optimizers.table import OPTIMIZERS
from dragoman.training.text_stream import TextStream

# Published by nanoGPT for this setting after 2,000 updates, in nats per character.
PUBLISHED = 1.88
ROWS, CONTEXT = 12, 64
# The settings of nanoGPT's shape: no dropout, learned positions.
SHAPE = {
    "layers": 4,
    "heads": 4,
    "d_model": 128,
    "d_ff": 512,
    "context": CONTEXT,
    "positions": "learned",
    "dropout": 0.0,
}
SETTINGS: dict[str, Any] = {
    "task": "language",
    "tokenizer": {"kind": "character"},
    "batching": {"batch_tokens": ROWS * CONTEXT},
    "model": SHAPE,
}


def characters(text: Path) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the ids of the training and the validation characters, and the number of different characters."""
    content = text.read_text(encoding="utf-8")
    ids = {character: number for number, character in enumerate(sorted(set(content)))}
    data = torch.tensor([ids[character] for character in content])
    cut = int(len(data) * 0.9)
    return data[:cut], data[cut:], len(ids)


class OurTrainer:
    """Updates of the training loop without its checkpoints and validations."""

    def __init__(self, stream: TokenStream, config: LanguageConfig, optimizer: str) -> None:
        tune_cpu()
        self.model = build_language_model(config).train()
        self.precision = select_precision("auto", torch.device("cpu"))
        training = TrainingConfig(steps=1, optimizer=optimizer, label_smoothing=0.0, best_by="loss")
        self.optimizers = OPTIMIZERS[optimizer](self.model, training, self.precision)
        self.batches = TextStream(stream, CONTEXT, ROWS * CONTEXT, seed=1).from_cursor(Cursor())

    def run(self, updates: int) -> None:
        """Make updates."""
        losses, device = LanguageLosses(0.0), torch.device("cpu")
        for _ in range(updates):
            batch, _ = next(self.batches)
            self.model.zero_grad()
            loss, _ = accumulate_gradients(self.model, [batch], losses, self.precision, device)
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizers.step(1e-3, loss.isfinite() & norm.isfinite())


def rate(run: Callable[[], object], tokens: int) -> float:
    start = time.perf_counter()
    run()
    return tokens / (time.perf_counter() - start)


def generation_rate(generator: Generator, continuation: ContinuationConfig) -> float:
    """Return the tokens generated per second, until at least `max_tokens` have been: a text may end earlier."""
    start, tokens, seed = time.perf_counter(), 0, 0
    while tokens < continuation.max_tokens:
        seed += 1
        sampling = replace(continuation.sampling, seed=seed)
        [generation] = generator.generate("\n", replace(continuation, sampling=sampling))
        tokens += generation.tokens
    return tokens / (time.perf_counter() - start)


def compare_speed(arguments: argparse.Namespace) -> dict[str, object]:
    training, _, vocabulary = characters(arguments.text)
    shape = plain_gpt.Shape(vocabulary, 4, 4, 128, CONTEXT)
    plain = plain_gpt.PlainTrainer(training, shape, ROWS, steps=2000)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "model")
        train([str(arguments.text)], out, settings=merge(SETTINGS, {"training": {"steps": 30, "validations": 1}}))
        stream = TokenStream.open(out / "run" / "prepared")
        config = LanguageConfig(vocabulary=vocabulary + 260, **SHAPE)  # type: ignore[arg-type]
        ours = {name: OurTrainer(stream, config, name) for name in OPTIMIZERS}
        generator = Generator.load(out)
        rates: dict[str, list[float]] = {name: [] for name in ("plain", *ours, "plain generate", "generate")}
        updates, count = arguments.updates, arguments.tokens
        continuation = ContinuationConfig(max_tokens=count, sampling=SamplingConfig(temperature=0.8, top_k=20))
        prompt = torch.zeros(1, 1, dtype=torch.long)
        for number in range(arguments.rounds + 1):
            measured = {
                "plain": rate(lambda: plain.run(updates), updates * ROWS * CONTEXT),
                **{
                    name: rate(lambda each=each: each.run(updates), updates * ROWS * CONTEXT)  # type: ignore[misc]
                    for name, each in ours.items()
                },
                "plain generate": rate(lambda: plain.model.generate(prompt, count, 0.8, 20), count),
                "generate": generation_rate(generator, continuation),
            }
            if number:  # the first round is a warm-up
                for name, value in measured.items():
                    rates[name].append(value)
    print(f"{'':<16}{'tokens/s':>10}{'lowest':>10}{'highest':>10}")
    for name, values in rates.items():
        print(f"{name:<16}{statistics.median(values):>10,.0f}{min(values):>10,.0f}{max(values):>10,.0f}")
    median = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "training_ratio": round(median["adam"] / median["plain"], 2),
        "training_ratio_muon": round(median["muon"] / median["plain"], 2),
        "generation_ratio": round(median["generate"] / median["plain generate"], 1),
    }


def compare_loss(arguments: argparse.Namespace) -> dict[str, object]:
    result: dict[str, object] = {}
    if arguments.plain:
        training, validation, vocabulary = characters(arguments.text)
        shape = plain_gpt.Shape(vocabulary, 4, 4, 128, CONTEXT)
        start = time.perf_counter()
        plain = plain_gpt.PlainTrainer(training, shape, ROWS, arguments.steps)
        plain.run(arguments.steps)
        result["plain_seconds"] = round(time.perf_counter() - start)
        result["plain_loss"] = round(plain.validation_loss(validation), 4)
    own = load_toml(arguments.recipe) if arguments.recipe else merge(SETTINGS, {"training": {"steps": arguments.steps}})
    with tempfile.TemporaryDirectory() as folder:
        losses = []
        for seed in range(1, arguments.seeds + 1):
            trained = train(
                [str(arguments.text)], Path(folder, str(seed)), settings=merge(own, {"training": {"seed": seed}})
            )
            losses.append(trained.best.loss)
            print(f"seed {seed}: {trained.steps:,} updates, {trained.seconds:.0f} s, loss {trained.best.loss:.4f}")
    best = statistics.median(losses)
    return {"ratio_to_published": round(best / PUBLISHED, 3), "loss": round(best, 4), "losses": losses, **result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("speed", "loss"))
    parser.add_argument("text", type=Path)
    parser.add_argument("--updates", type=int, default=40, help="speed: updates in a round")
    parser.add_argument("--tokens", type=int, default=400, help="speed: generated tokens in a round")
    parser.add_argument("--rounds", type=int, default=7, help="speed: rounds")
    parser.add_argument("--steps", type=int, default=2000, help="loss: updates")
    parser.add_argument("--seeds", type=int, default=1, help="loss: number of seeds")
    parser.add_argument("--plain", action="store_true", help="loss: also train the plain GPT")
    parser.add_argument("--recipe", type=Path, help="loss: a run file in place of the shape of nanoGPT")
    arguments = parser.parse_args()
    result = compare_speed(arguments) if arguments.what == "speed" else compare_loss(arguments)
    print(
        f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{torch.get_num_threads()} threads"
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
