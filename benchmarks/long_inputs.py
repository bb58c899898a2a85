"""Train a decoder-only model on whole documents and on documents cut to 512 tokens, and compare their summaries.

    python benchmarks/long_inputs.py FOLDER [--minutes 30]
    python benchmarks/long_inputs.py --memory

FOLDER is the corpus of `benchmarks/long_inputs_corpus.py`, which is made if it does not exist: manual pages and README
files to their short descriptions, split by source package. Both models have local and compressed attention in turn
(preset "long", but smaller), and are trained for the same number of minutes. For the first two thirds, they are one
model, which reads documents cut to 512 tokens and also learns to predict them. For the last third
(`dragoman train --from`), one reads whole documents and the other cut ones, and only the descriptions count. The test
set is summarised by both; ROUGE is compared with that of the lead, the first words of the document. The last line is
JSON and begins with the ratio of the ROUGE-L (f1) of the model that reads whole documents to that of the model that
reads 512 tokens.

With --memory, only the peak memory of training on one document of 10,000 tokens is measured, for full, and for local
and compressed attention, each in a separate process.
"""

import argparse
import json
import multiprocessing
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from long_inputs_corpus import write

from dragoman import Translator, __version__
from dragoman.data.readers import Pair
from dragoman.device import peak_memory, tune_cpu
from dragoman.evaluation.references import References
from dragoman.evaluation.rouge import METRICS, SummaryMetrics, compare_summaries, summary_metrics
from dragoman.models.config.causal import AttentionPattern
from dragoman.models.config.decoder_only import DecoderOnlyConfig
from dragoman.models.registry import build_model, preset
from dragoman.run import train
from dragoman.search.config import SearchConfig
from dragoman.settings import merge
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from dragoman.training.loss import label_smoothed_loss

WHOLE, CUT = 10_000, 512
VOCABULARY = 4000
# The part of the training that both models share.
SHARED = 2 / 3
# The models' tokenizers differ a little from the one that cuts the texts.
LONGEST = WHOLE + WHOLE // 4
PATTERNS: dict[str, tuple[AttentionPattern, ...]] = {
    "full": ("full",),
    "local and compressed": ("local", "compressed"),
}


@dataclass(frozen=True)
class Setup:
    """Sizes of the models and of their batches, and the weight of the loss of a token of the source at first."""

    layers: int
    d_model: int
    batch_tokens: int
    source_loss: float


def common_settings(minutes: float, batch_tokens: int) -> dict[str, Any]:
    return {
        "data": {"max_length": LONGEST, "validation_pairs": 50},
        "cleaning": {"max_characters": 0, "max_length_ratio": 0.0},
        "batching": {"batch_tokens": batch_tokens},
        "training": {"minutes": minutes, "validations": 4, "best_by": "loss", "optimizer": "muon"},
    }


def first_settings(minutes: float, setup: Setup) -> dict[str, Any]:
    """Settings of the training on cut documents that both models share."""
    sizes = {"layers": setup.layers, "d_model": setup.d_model, "d_ff": 4 * setup.d_model}
    first = {
        "architecture": "decoder-only",
        "preset": "long",
        "model": sizes,
        "tokenizer": {"vocabulary_size": VOCABULARY},
        "schedule": {"kind": "linear", "warmup": 0.1, "peak_learning_rate": 0.002},
        "training": {"source_loss": setup.source_loss},
    }
    return merge(common_settings(minutes, setup.batch_tokens), first)


def second_settings(minutes: float, setup: Setup, first: Path) -> dict[str, Any]:
    """Settings of the training that continues from the shared model."""
    schedule = {"kind": "linear", "warmup": 0.1, "peak_learning_rate": 0.001}
    return merge(common_settings(minutes, setup.batch_tokens), {"from_model": str(first), "schedule": schedule})


def read(path: Path) -> list[Pair]:
    return [Pair(*line.split("\t")) for line in path.read_text(encoding="utf-8").split("\n") if line]


def shortened(texts: Sequence[str], tokenizer: Tokenizer, tokens: int) -> list[str]:
    """Return the texts with at most this number of tokens each."""
    rows = tokenizer.encode_source(texts)
    return tokenizer.decode_source([row[:tokens] for row in rows])


def write_shortened(parts: dict[str, list[Pair]], tokenizer: Tokenizer, tokens: int, folder: Path) -> Path:
    """Write a corpus of documents with at most this number of tokens; return its folder."""
    folder.mkdir()
    for part, pairs in parts.items():
        sources = shortened([pair.source for pair in pairs], tokenizer, tokens)
        lines = (f"{source}\t{pair.target}\n" for source, pair in zip(sources, pairs, strict=True))
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
    return folder


def trained(corpus: Path, out: Path, settings: dict[str, Any]) -> float:
    """Train on a corpus; return the best loss of a validation."""
    result = train([str(corpus / "train.tsv")], out, validation=str(corpus / "valid.tsv"), settings=settings)
    return result.best["loss"]


def summaries_of(model: Path, corpus: Path) -> list[str]:
    """Return the summaries of the test set of a corpus."""
    translator = Translator.load(
        model, device="cpu", max_source_tokens=LONGEST, max_line_characters=1 << 20, batch_tokens=LONGEST
    )
    search = SearchConfig(max_length_factor=0.0, max_length_offset=60)
    test = [pair.source for pair in read(corpus / "test.tsv")]
    return [translation.text for translation in translator.translate(test, search=search)]


def train_and_summarise(
    parts: dict[str, list[Pair]], tokenizer: Tokenizer, minutes: float, setup: Setup, folder: Path
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return the summaries of the test set by both models, and the best validation loss of each training."""
    corpora = {
        name: write_shortened(parts, tokenizer, tokens, folder / name)
        for name, tokens in (("whole", WHOLE), ("cut", CUT))
    }
    first = folder / "first"
    losses = {"first": trained(corpora["cut"], first, first_settings(minutes * SHARED, setup))}
    summaries = {}
    for name, corpus in corpora.items():
        model = folder / f"{name}-model"
        losses[name] = trained(corpus, model, second_settings(minutes * (1 - SHARED), setup, first))
        summaries[name] = summaries_of(model, corpus)
    return summaries, losses


def f1(metrics: SummaryMetrics) -> dict[str, float]:
    return {name: metrics.rouge[key].f1 for name, key in METRICS.items()}


def training_memory(pattern: str, results: "multiprocessing.Queue[tuple[float, float]]") -> None:
    """Put into `results` the peak memory in MB of two updates on 10,000 tokens, and the seconds of the second."""
    tune_cpu()
    torch.manual_seed(1)
    config = preset("long", 8000, 8000, joint=True, architecture="decoder-only")
    assert isinstance(config, DecoderOnlyConfig)
    model = build_model(replace(config, attention_pattern=PATTERNS[pattern]))
    optimizer = torch.optim.AdamW(model.parameters())
    source, target = torch.randint(4, 8000, (1, WHOLE)), torch.randint(4, 8000, (1, 32))
    masks = [torch.ones_like(side, dtype=torch.bool) for side in (source, target)]
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        decoded = model(source, masks[0], target, masks[1])
        loss, count = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, target, 0.1)
        (loss / count).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds = time.perf_counter() - start
    results.put((peak_memory() / 2**20, seconds))


def measure_memory() -> dict[str, dict[str, float]]:
    spawn = multiprocessing.get_context("spawn")
    measured = {}
    for pattern in PATTERNS:
        results: multiprocessing.Queue[tuple[float, float]] = spawn.Queue()
        process = spawn.Process(target=training_memory, args=(pattern, results), daemon=True)
        process.start()
        megabytes, seconds = results.get(timeout=600)
        process.join()
        measured[pattern] = {"megabytes": megabytes, "seconds": seconds}
    return measured


def compare(folder: Path, minutes: float, setup: Setup) -> dict[str, Any]:
    if not (folder / "train.tsv").exists():
        print(json.dumps(write(folder, download=True)))
    parts = {part: read(folder / f"{part}.tsv") for part in ("train", "valid", "test")}
    tokenizer = train_tokenizer(parts["train"], TokenizerConfig(vocabulary_size=VOCABULARY))
    lengths = [len(row) for row in tokenizer.encode_source([pair.source for pair in parts["test"]])]
    with tempfile.TemporaryDirectory() as name:
        summaries, losses = train_and_summarise(parts, tokenizer, minutes, setup, Path(name))
    references: list[References] = [(pair.target,) for pair in parts["test"]]
    sources = [pair.source for pair in parts["test"]]
    metrics = {name: summary_metrics(texts, references, sources, system=name) for name, texts in summaries.items()}
    significance = compare_summaries(references, "cut", {"cut": summaries["cut"], "whole": summaries["whole"]})
    for row in range(min(5, len(sources))):
        print(
            f"reference: {references[row][0]}\nwhole:     {summaries['whole'][row]}\ncut:       {summaries['cut'][row]}"
        )
    values = {name: f1(of) for name, of in metrics.items()}
    lead = {name: metrics["whole"].lead[key].f1 for name, key in METRICS.items()}
    print(f"\n{'ROUGE f1':>10}" + "".join(f"{name:>10}" for name in METRICS))
    for name, row_values in {**values, "lead": lead}.items():
        print(f"{name:>10}" + "".join(f"{value:10.2f}" for value in row_values.values()))
    return {
        "ratio": values["whole"]["ROUGE-L"] / max(values["cut"]["ROUGE-L"], 1e-9),
        **values,
        "lead": lead,
        "significance": significance.to_json(),
        "validation_losses": losses,
        "test_documents": len(sources),
        "test_documents_longer_than_512": sum(length > CUT for length in lengths),
        "minutes": minutes,
        "peak_megabytes": peak_memory() / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of the corpus")
    parser.add_argument("--minutes", type=float, default=30.0, help="minutes of training of each model")
    parser.add_argument("--layers", type=int, default=4, help="layers of the models")
    parser.add_argument("--d-model", type=int, default=128, help="width of the models; a multiple of 4")
    parser.add_argument("--batch-tokens", type=int, default=2048, help="tokens of a batch; a longer document is one")
    parser.add_argument("--source-loss", type=float, default=0.1, help="weight of the loss of a token of the source")
    parser.add_argument("--memory", action="store_true", help="measure the memory of training on 10,000 tokens only")
    arguments = parser.parse_args()
    if not arguments.memory and arguments.folder is None:
        parser.error("give the folder of the corpus, or --memory")
    print(f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    if arguments.memory:
        measured = measure_memory()
        ratio = measured["full"]["megabytes"] / measured["local and compressed"]["megabytes"]
        print(json.dumps({"ratio": ratio, **measured}))
    else:
        setup = Setup(arguments.layers, arguments.d_model, arguments.batch_tokens, arguments.source_loss)
        print(json.dumps(compare(arguments.folder, arguments.minutes, setup)))


if __name__ == "__main__":
    main()
