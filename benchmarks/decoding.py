"""Measure the decoding speed of Dragoman's native engine, CTranslate2 and Hugging Face's `generate`.

    python benchmarks/decoding.py --model models/small --test test.tsv... --repeats 5

The same weights are exported to each system, and each translates text to text with the same subwords. The systems run
in separate processes, in turns, each on all cores: Dragoman with one thread for each core, CTranslate2 with one
translator for each core, with the instruction set that it selects or the one given by --isa. "Batch 1" is one sentence
at a time for each thread or translator. "Alone" is one sentence after another with nothing else running, so that all
cores can work on it; for this, CTranslate2 also runs as one translator with one thread for each core. Ratios refer to
the fastest int8 setting of CTranslate2. Slow systems translate a part of the sentences (`select_lines`). Rates are in
output subwords per second. Memory and the time from process start to the first translation are measured in new
processes; memory does not include the import of torch.

The last line is JSON and begins with the lowest ratio to the fastest setting of CTranslate2.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CORES = len(os.sched_getaffinity(0))
ALONE = 0
BATCHES, BEAMS = (ALONE, 1, 32, 128), (1, 4)
MAX_LENGTH_OFFSET = 50
LONGEST = 100

# (lines, beam, batch size) -> the translations, and a function that counts their subwords outside the measured time.
Translate = Callable[[Sequence[str], int, int], tuple[list[str], Callable[[], int]]]


def dragoman(directory: Path, precision: str, shortlist: bool) -> Translate:
    from dragoman import Translator
    from dragoman.native.backend import NativeBackend
    from dragoman.search.config import SearchConfig

    translator = Translator.load(
        directory,
        device="cpu",
        engine="native",
        precision=precision,  # type: ignore[arg-type]
        shortlist=shortlist,
    )
    backend: Any = translator.backend
    engine: NativeBackend = backend.native

    def translate(lines: Sequence[str], beam: int, batch: int) -> tuple[list[str], Callable[[], int]]:
        engine.batch_sentences, engine.batch_tokens = batch, 1 << 30
        translations = translator.translate(lines, search=SearchConfig(beam=beam))
        texts = [translation.text for translation in translations]
        return texts, lambda: sum(map(len, translator.tokenizer.encode_target(texts)))

    return translate


def ctranslate2(directory: Path, source: Path, translators: int, threads: int) -> Translate:
    import ctranslate2
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(source / "tokenizer.model"))
    translator = ctranslate2.Translator(
        str(directory), device="cpu", inter_threads=translators, intra_threads=threads, compute_type="default"
    )
    end = processor.id_to_piece(processor.eos_id())

    def translate(lines: Sequence[str], beam: int, batch: int) -> tuple[list[str], Callable[[], int]]:
        subwords = [[*line, end] for line in processor.encode(list(lines), out_type=str)]
        results = translator.translate_batch(
            subwords,
            beam_size=beam,
            max_batch_size=batch,
            length_penalty=1.0,
            max_decoding_length=MAX_LENGTH_OFFSET + max(map(len, subwords)),
            return_scores=True,
        )
        texts = processor.decode([result.hypotheses[0] for result in results])
        return texts, lambda: sum(len(result.hypotheses[0]) for result in results)

    return translate


def hugging_face(directory: Path, precision: str) -> Translate:
    import sentencepiece
    import torch
    from exporting import to_hugging_face

    torch.set_num_threads(CORES)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    model = to_hugging_face(directory)
    if precision == "bf16":
        model = model.to(torch.bfloat16)

    def translate(lines: Sequence[str], beam: int, batch: int) -> tuple[list[str], Callable[[], int]]:
        subwords = [[*ids, processor.eos_id()] for ids in processor.encode(list(lines))]
        order = sorted(range(len(subwords)), key=lambda i: -len(subwords[i]))
        texts, tokens = [""] * len(subwords), 0
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            longest = max(len(subwords[i]) for i in rows)
            ids = torch.tensor([subwords[i] + [processor.pad_id()] * (longest - len(subwords[i])) for i in rows])
            with torch.inference_mode():
                output = model.generate(
                    input_ids=ids,
                    attention_mask=(ids != processor.pad_id()).long(),
                    num_beams=beam,
                    do_sample=False,
                    length_penalty=1.0,
                    max_new_tokens=longest + MAX_LENGTH_OFFSET,
                )
            for i, row in zip(rows, output.tolist(), strict=True):
                generated = [token for token in row if token > processor.eos_id()]
                texts[i] = processor.decode(generated)
                tokens += len(generated)
        return texts, lambda: tokens

    return translate


def build(system: dict[str, Any]) -> Translate:
    model, exported = Path(system["model"]), Path(system["exported"])
    match system["kind"]:
        case "dragoman":
            return dragoman(model, system["precision"], system["shortlist"])
        case "ctranslate2":
            return ctranslate2(exported / system["precision"], model, system["translators"], system["threads"])
        case _:
            return hugging_face(model, system["precision"])


def peak_memory() -> float:
    """Return the peak memory of this process in megabytes (getrusage may report the parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def work(system: dict[str, Any]) -> None:
    """Run a worker: read one line of JSON per task from standard input, and print one line of JSON per result."""
    base = 0.0
    if system["kind"] == "hugging_face":
        import torch  # noqa: F401

        base = peak_memory()
    translate = build(system)
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        started = time.perf_counter()
        if task["batch"] == ALONE:
            texts, counts = [], []
            for source in task["lines"]:
                [text], count = translate([source], task["beam"], 1)
                texts.append(text)
                counts.append(count)
        else:
            texts, count = translate(task["lines"], task["beam"], task["batch"])
            counts = [count]
        seconds = time.perf_counter() - started
        memory = peak_memory() - base
        print(
            json.dumps(
                {"seconds": seconds, "tokens": sum(count() for count in counts), "texts": texts, "memory": memory}
            ),
            flush=True,
        )


class Worker:
    """A system that runs in a separate process."""

    def __init__(self, system: dict[str, Any]) -> None:
        self.name: str = system["name"]
        self.part: float = system["part"]
        self.batches: list[int] = system["batches"]
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", json.dumps(system)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **system.get("environment", {})},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", f"{self.name} did not start"

    def run(self, lines: Sequence[str], beam: int, batch: int) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"lines": list(lines), "beam": beam, "batch": batch}) + "\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.process.stdout.readline())
        return result

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def systems(arguments: argparse.Namespace, exported: Path) -> list[dict[str, Any]]:
    """Return the description of each system and setting that is measured."""
    batches = list(arguments.batches)
    common = {"model": str(arguments.model), "exported": str(exported), "part": 1.0, "batches": batches}
    ours = [(precision, False) for precision in arguments.precisions]
    if (arguments.model / "shortlist.safetensors").exists():
        ours.insert(1, (arguments.precisions[0], True))
    described: list[dict[str, Any]] = []
    for precision, shortlist in ours:
        name = f"Dragoman {precision}{', shortlist' if shortlist else ''}"
        described.append({**common, "kind": "dragoman", "name": name, "precision": precision, "shortlist": shortlist})
    for precision in arguments.peer_precisions:
        for isa in arguments.isa:
            environment = {} if isa == "auto" else {"CT2_FORCE_CPU_ISA": isa}
            for translators, threads in ((CORES, 1), (1, CORES)):
                kind = {"kind": "ctranslate2", "precision": precision, "environment": environment}
                name = f"CTranslate2 {precision} {isa} {translators}x{threads}"
                own_batches = batches if threads == 1 else [batch for batch in batches if batch == ALONE]
                system = {**common, **kind, "name": name, "translators": translators, "threads": threads}
                described.append({**system, "batches": own_batches})
    for precision in arguments.hugging_face:
        kind = {"kind": "hugging_face", "precision": precision, "part": 0.05}
        own_batches = [batch for batch in batches if batch != ALONE]
        described.append({**common, **kind, "name": f"generate {precision}", "batches": own_batches})
    return described


def select_lines(lines: Sequence[str], batch: int, part: float) -> Sequence[str]:
    """Return the leading lines to translate: a part of them for slow settings, but at least one batch for each core."""
    count = len(lines) * part * {ALONE: 0.05, 1: 0.2}.get(batch, 1)
    return lines[: min(len(lines), max(round(count), CORES * batch, 20))]


def measure(arguments: argparse.Namespace, exported: Path) -> dict[str, Any]:
    from rich.console import Console
    from rich.table import Table

    from dragoman.data.readers import parse_corpus, read_corpora
    from dragoman.evaluation.metrics import translation_metrics
    from dragoman.text.tokenizer import Tokenizer

    # Without sentences that Dragoman would split, as the other systems do not.
    encode = Tokenizer.load(arguments.model).encode_source
    pairs = [
        pair
        for pair in read_corpora([parse_corpus(test) for test in arguments.test])
        if 0 < len(encode([pair.source])[0]) <= LONGEST
    ]
    random.Random(0).shuffle(pairs)
    pairs = pairs[: arguments.sentences]
    lines, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    workers = [Worker(system) for system in systems(arguments, exported)]
    cells = [(beam, batch) for beam in arguments.beams for batch in arguments.batches]
    rates: dict[tuple[str, int, int], list[float]] = {}
    texts: dict[tuple[str, int], list[str]] = {}
    for repeat in range(arguments.repeats + 1):
        for beam, batch in cells:
            for worker in workers:
                if batch not in worker.batches:
                    continue
                selected = select_lines(lines, batch, worker.part if repeat else min(worker.part, 0.1))
                result = worker.run(selected, beam, batch)
                if repeat == 0:
                    continue  # the first round is a warm-up
                rates.setdefault((worker.name, beam, batch), []).append(result["tokens"] / result["seconds"])
                if len(selected) == len(lines):
                    texts[worker.name, beam] = result["texts"]
        print(f"round {repeat} of {arguments.repeats}", file=sys.stderr)
    for worker in workers:
        worker.stop()

    def median(name: str, beam: int, batch: int) -> float:
        return statistics.median(rates.get((name, beam, batch), [0.0]))

    def title(beam: int, batch: int) -> str:
        return f"beam {beam}, " + ("alone" if batch == ALONE else f"batch {batch}")

    names = [worker.name for worker in workers]
    peers = [name for name in names if name.startswith("CTranslate2 int8")]
    console = Console(width=170)
    table = Table(title=f"{arguments.model}: subwords per second, median (lowest to highest of {arguments.repeats})")
    table.add_column("system")
    for beam, batch in cells:
        table.add_column(title(beam, batch), justify="right")
    for name in names:
        row = []
        for cell in cells:
            values = sorted(rates.get((name, *cell), []))
            row.append(f"{statistics.median(values):,.0f}\n{values[0]:,.0f}-{values[-1]:,.0f}" if values else "")
        table.add_row(name, *row)
    console.print(table)
    ratios = {
        name: {
            title(beam, batch): round(median(name, beam, batch) / max(median(p, beam, batch) for p in peers), 2)
            for beam, batch in cells
            if median(name, beam, batch)
        }
        for name in names
        if not name.startswith("CTranslate2 int8")
    }
    bleu = {}
    for (name, beam), translations in texts.items():
        scores = translation_metrics(translations, references, tokenize="13a")
        bleu[f"{name}, beam {beam}"] = round(scores.bleu, 2)
        signature = scores.signatures["bleu"]
    console.print(f"BLEU on {len(lines):,} sentences ({signature}):", json.dumps(bleu, indent=1))
    return {"ratios": ratios, "bleu": bleu}


# The first script of a user of each system.
FIRST = {
    "dragoman": """
from dragoman import Translator
translator = Translator.load({model!r}, device="cpu", precision={precision!r})
print(translator.translate(["Turn off the light."])[0].text)
""",
    "ctranslate2": """
import ctranslate2, sentencepiece
processor = sentencepiece.SentencePieceProcessor(model_file={model!r} + "/tokenizer.model")
translator = ctranslate2.Translator({exported!r} + "/" + {precision!r}, device="cpu")
subwords = processor.encode("Turn off the light.", out_type=str) + ["</s>"]
print(processor.decode(translator.translate_batch([subwords])[0].hypotheses[0]))
""",
}


def starts(arguments: argparse.Namespace, exported: Path) -> dict[str, Any]:
    """Return, for each system, the median time from process start to a first translation and median peak memory."""
    from dragoman.data.readers import parse_corpus, read_corpora

    lines = [pair.source for pair in read_corpora([parse_corpus(test) for test in arguments.test])][:500]
    quantized = exported / "quantized"
    measured: dict[str, Any] = {}
    for system in systems(arguments, exported):
        if system["kind"] not in FIRST or system.get("threads", 1) != 1 or system.get("shortlist"):
            continue
        settings = {**system, "model": str(quantized) if system["precision"] == "int8" else system["model"]}
        if system["kind"] == "ctranslate2":
            settings["model"] = system["model"]
        seconds, memory = [], []
        for _ in range(arguments.repeats):
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", FIRST[system["kind"]].format(**settings)], check=True, capture_output=True
            )
            seconds.append(time.perf_counter() - started)
            worker = Worker(settings)
            memory.append(max(worker.run(lines, beam, 32)["memory"] for beam in arguments.beams))
            worker.stop()
        measured[system["name"]] = {
            "seconds to first translation": round(statistics.median(seconds), 2),
            "peak memory, MB": round(statistics.median(memory)),
        }
        print(f"{system['name']}: {measured[system['name']]}")
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model directory")
    parser.add_argument("--test", nargs="+", default=[], help="held-out corpora")
    parser.add_argument("--sentences", type=int, default=2000, help="sentences drawn from the test corpora")
    parser.add_argument("--repeats", type=int, default=5, help="counted rounds")
    parser.add_argument("--beams", type=int, nargs="+", default=BEAMS, help="beam widths")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="batch sizes; 0 is one sentence alone")
    parser.add_argument("--precisions", nargs="+", default=["int8", "bf16", "fp32"], help="precisions of Dragoman")
    parser.add_argument("--peer-precisions", nargs="+", default=["int8"], help="precisions of CTranslate2")
    parser.add_argument("--isa", nargs="+", default=["auto", "AVX512"], help="instruction sets of CTranslate2")
    parser.add_argument("--hugging-face", nargs="*", default=["fp32", "bf16"], help="precisions of `generate`")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(json.loads(arguments.worker))
        return
    import ctranslate2
    import torch
    import transformers
    from exporting import to_ctranslate2

    from dragoman import __version__
    from dragoman.cli.doctor import Doctor
    from dragoman.models.quantization import quantize_model

    Doctor().run()
    print(f"dragoman {__version__}, ctranslate2 {ctranslate2.__version__}, transformers {transformers.__version__}")
    print(f"torch {torch.__version__}, {CORES} cores")
    with tempfile.TemporaryDirectory() as temporary:
        exported = Path(temporary)
        for precision in arguments.peer_precisions:
            to_ctranslate2(arguments.model, exported / precision, None if precision == "fp32" else precision)
        quantize_model(arguments.model, exported / "quantized")
        results = measure(arguments, exported)
        fresh = starts(arguments, exported)
    ours = results["ratios"][f"Dragoman {arguments.precisions[0]}"]
    print(json.dumps({"least_ratio": min(ours.values()), **results, "fresh": fresh}))


if __name__ == "__main__":
    main()
