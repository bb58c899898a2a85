"""Measure BLEU on held-out documents after a given training time, for Dragoman and for MarianMTModel.

    python benchmarks/quality.py --train train.tsv --valid valid.tsv --test test.tsv --minutes 5 --peer-minutes 15

Dragoman is trained as by `dragoman train --minutes M`, with the settings of --set. MarianMTModel ("the peer") is
trained by a plain loop in bf16, with the same shape, on the same cleaned pairs in the same subwords: Adam, label
smoothing and clipping as in Dragoman, a linear schedule over its time, and the batches and peak rate of
--peer-batch-tokens and --peer-rate. Both translate with a beam of 4. Each system has --threads threads; with
--side-by-side they run at the same time on one core each, so that other work on the machine affects both. The last line
is JSON and begins with the difference in BLEU.
"""

import argparse
import json
import multiprocessing
import platform
import statistics
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import peers
import torch
import transformers
from rich.console import Console

from dragoman import Translator, __version__
from dragoman.data.batching import BatchingConfig, batches, collate, sorted_batches
from dragoman.data.cleaning import CleaningConfig, CleaningReport, clean
from dragoman.data.readers import Pair, parse_corpus, read_corpora
from dragoman.evaluation.metrics import translation_metrics
from dragoman.models.description import load_description
from dragoman.run.train import train
from dragoman.settings import apply_overrides
from dragoman.text.tokenizer import BOS, EOS, PAD, Tokenizer

MAX_TOKENS = 128


def read(corpora: list[str]) -> list[Pair]:
    return list(read_corpora([parse_corpus(corpus) for corpus in corpora]))


def train_dragoman(arguments: argparse.Namespace, out: Path, connection: Connection) -> None:
    torch.set_num_threads(arguments.threads)
    settings: dict[str, Any] = {"target_language": arguments.language, "training": {"minutes": arguments.minutes}}
    with (out.parent / "dragoman.log").open("w") as log:
        result = train(
            arguments.train,
            out,
            validation=arguments.valid,
            settings=apply_overrides(settings, arguments.set),
            console=Console(file=log, width=150),
        )
    translations = {}
    for test in arguments.test:
        translator = Translator.load(out)
        translations[test] = [
            translation.text for translation in translator.translate([pair.source for pair in read([test])])
        ]
    connection.send((result.steps, translations))


def train_peer(arguments: argparse.Namespace, out: Path, connection: Connection) -> None:
    torch.set_num_threads(arguments.threads)
    while not (out / "run" / "run.json").exists():  # Dragoman selects shape and subwords first, outside its time
        time.sleep(0.5)
    tokenizer = Tokenizer.load(out)
    config = json.loads((out / "run" / "run.json").read_text())["model"]
    shape = peers.Shape(
        config["encoder_layers"], config["d_model"], config["heads"], config["d_ff"], config["target_vocabulary"]
    )
    pairs = list(clean(read(arguments.train), CleaningConfig(), CleaningReport()))
    sources = tokenizer.encode_source([pair.source for pair in pairs])
    targets = tokenizer.encode_target([pair.target for pair in pairs])
    both = [(s, t) for s, t in zip(sources, targets, strict=True) if max(len(s), len(t)) <= MAX_TOKENS]
    lengths = np.array([(len(s), len(t)) for s, t in both])
    torch.manual_seed(1)
    model, loss = peers.marian(shape)
    model.train()
    peak = arguments.peer_rate
    optimizer: Any = torch.optim.AdamW(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
    )
    start, steps, losses = time.monotonic(), 0, []
    stream = batches(lengths[:, 0], lengths[:, 1], BatchingConfig(batch_tokens=arguments.peer_batch_tokens), seed=1)
    for _, rows in stream:
        spent = (time.monotonic() - start) / (60 * arguments.peer_minutes)
        if spent >= 1:
            break
        optimizer.param_groups[0]["lr"] = peak * min(spent / 0.1, (1 - spent) / 0.9)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(collate([both[row][0] for row in rows], [both[row][1] for row in rows]))
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
        losses.append(float(value.detach()))
        if steps % 200 == 0:
            print(f"peer: update {steps}, {spent:.0%}, loss {statistics.mean(losses[-200:]):.3f}", flush=True)
    translations = {test: list(translate_peer(model, tokenizer, read([test]))) for test in arguments.test}
    connection.send((steps, translations))


@torch.inference_mode()
def translate_peer(model: Any, tokenizer: Tokenizer, pairs: list[Pair]) -> Iterator[str]:
    model.eval()
    sources = [ids[:MAX_TOKENS] for ids in tokenizer.encode_source([pair.source for pair in pairs])]
    lengths = np.array([len(ids) for ids in sources])
    texts: dict[int, str] = {}
    for rows in sorted_batches(lengths, lengths, 1024):
        batch = collate([sources[row] for row in rows], [sources[row] for row in rows])
        with torch.autocast("cpu", torch.bfloat16):
            output = model.generate(
                input_ids=batch.source,
                attention_mask=batch.source_mask,
                num_beams=4,
                use_cache=True,
                max_new_tokens=2 * batch.source.shape[1] + 10,
                do_sample=False,
            )
        kept = [[i for i in row.tolist() if i not in (BOS, EOS, PAD)] for row in output]
        texts |= dict(zip(rows.tolist(), tokenizer.decode_target(kept), strict=True))
    return (texts[row] for row in range(len(pairs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", nargs="+", required=True, help="training corpora")
    parser.add_argument("--valid", help="validation corpus")
    parser.add_argument("--test", nargs="+", required=True, help="held-out corpora")
    parser.add_argument("--language", default="de", help="target language")
    parser.add_argument("--minutes", type=float, default=5, help="training time of Dragoman")
    parser.add_argument("--peer-minutes", type=float, default=15, help="training time of MarianMTModel")
    parser.add_argument("--peer-batch-tokens", type=int, default=1024, help="batches of MarianMTModel")
    parser.add_argument("--peer-rate", type=float, default=0.001, help="peak learning rate of MarianMTModel")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of Dragoman")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of each system")
    parser.add_argument("--side-by-side", action="store_true", help="run both systems at the same time")
    parser.add_argument(
        "--keep", type=Path, help="directory in which to keep Dragoman's model and both systems' translations"
    )
    arguments = parser.parse_args()

    spawn = multiprocessing.get_context("spawn")
    results: dict[str, tuple[int, dict[str, list[str]]]] = {}
    with TemporaryDirectory() as temporary:
        out = (arguments.keep or Path(temporary)) / "model"
        out.parent.mkdir(parents=True, exist_ok=True)
        running = {}
        for name, target in (("Dragoman", train_dragoman), ("MarianMTModel", train_peer)):
            ours, theirs = spawn.Pipe()
            spawn.Process(target=target, args=(arguments, out, theirs), daemon=True).start()
            theirs.close()
            if arguments.side_by_side:
                running[name] = ours
            else:
                results[name] = ours.recv()
        results |= {name: connection.recv() for name, connection in running.items()}
        description = load_description(out)

    print(
        f"{description.model}\ndragoman {__version__}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, Python {platform.python_version()}, {arguments.threads} threads each"
        f"{', side by side' if arguments.side_by_side else ''}"
    )
    print(f"{'system':<16}{'minutes':>8}{'updates':>9}  test{'':40}{'BLEU':>6}{'chrF':>7}")
    bleu: dict[str, list[float]] = {name: [] for name in results}
    for name, (steps, translations) in results.items():
        minutes = arguments.minutes if name == "Dragoman" else arguments.peer_minutes
        for test, texts in translations.items():
            scores = translation_metrics(texts, [pair.target for pair in read([test])], tokenize="13a")
            bleu[name].append(scores.bleu)
            print(f"{name:<16}{minutes:>8g}{steps:>9,}  {test[-44:]:<44}{scores.bleu:>6.1f}{scores.chrf:>7.1f}")
        if arguments.keep:
            (arguments.keep / f"{name}.json").write_text(json.dumps(translations, ensure_ascii=False, indent=0))
    print(scores.signatures["bleu"])
    mean = {name: statistics.mean(values) for name, values in bleu.items()}
    print(
        json.dumps(
            {
                "bleu_ahead": round(mean["Dragoman"] - mean["MarianMTModel"], 2),
                "mean_bleu": {name: round(value, 2) for name, value in mean.items()},
                "bleu": {name: [round(value, 2) for value in values] for name, values in bleu.items()},
                "minutes": {"Dragoman": arguments.minutes, "MarianMTModel": arguments.peer_minutes},
            }
        )
    )


if __name__ == "__main__":
    main()
