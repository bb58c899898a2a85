"""How fast a trained model translates: Dragoman's compiled engine beside CTranslate2 and Hugging Face's `generate`.

    python benchmarks/decoding.py --model models/small --test test.tsv... --repeats 5

The same weights are exported to each system; text in, text out, with the same subwords. The systems run in processes
of their own, one after the other and interleaved, each on all the cores: Dragoman with a thread a core, CTranslate2
with one translator a core, with the instructions that it chooses or is told to take. "Batch 1" is a sentence at a time
for each thread or translator. "Alone" is one sentence after the other with nothing beside it, where all the cores may
work on the one: there CTranslate2 also runs as one translator with a thread a core. Ratios are to the fastest setting
of its int8. What is slow gets a part of the sentences (`some_of`); rates are in subwords of output a second. Memory
and the time from process start to a first translation are those of fresh processes; the import of torch is not
counted in memory.

The last line is JSON, the least ratio to CTranslate2 at its best first.
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

# Translates lines with (beam, batch size); gives texts, and a way to count their subwords, which takes no time of it.
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
        found = translator.translate(lines, search=SearchConfig(beam=beam))
        texts = [each.text for each in found]
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
        pieces = [[*line, end] for line in processor.encode(list(lines), out_type=str)]
        found = translator.translate_batch(
            pieces,
            beam_size=beam,
            max_batch_size=batch,
            length_penalty=1.0,
            max_decoding_length=MAX_LENGTH_OFFSET + max(map(len, pieces)),
            return_scores=True,
        )
        texts = processor.decode([each.hypotheses[0] for each in found])
        return texts, lambda: sum(len(each.hypotheses[0]) for each in found)

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
        pieces = [[*ids, processor.eos_id()] for ids in processor.encode(list(lines))]
        order = sorted(range(len(pieces)), key=lambda i: -len(pieces[i]))
        texts, tokens = [""] * len(pieces), 0
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            longest = max(len(pieces[i]) for i in rows)
            ids = torch.tensor([pieces[i] + [processor.pad_id()] * (longest - len(pieces[i])) for i in rows])
            with torch.inference_mode():
                found = model.generate(
                    input_ids=ids,
                    attention_mask=(ids != processor.pad_id()).long(),
                    num_beams=beam,
                    do_sample=False,
                    length_penalty=1.0,
                    max_new_tokens=longest + MAX_LENGTH_OFFSET,
                )
            for i, row in zip(rows, found.tolist(), strict=True):
                said = [token for token in row if token > processor.eos_id()]
                texts[i] = processor.decode(said)
                tokens += len(said)
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
    """The most that this process has held, in megabytes. (What getrusage says may be the parent's.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def work(system: dict[str, Any]) -> None:
    """A worker: a line of JSON in, a line of JSON out."""
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
            for each in task["lines"]:
                [text], count = translate([each], task["beam"], 1)
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
    """A system in a process of its own."""

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
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def systems(arguments: argparse.Namespace, exported: Path) -> list[dict[str, Any]]:
    """Every system and setting that takes part."""
    batches = list(arguments.batches)
    common = {"model": str(arguments.model), "exported": str(exported), "part": 1.0, "batches": batches}
    ours = [(precision, False) for precision in arguments.precisions]
    if (arguments.model / "shortlist.safetensors").exists():
        ours.insert(1, (arguments.precisions[0], True))
    found: list[dict[str, Any]] = []
    for precision, shortlist in ours:
        name = f"Dragoman {precision}{', shortlist' if shortlist else ''}"
        found.append({**common, "kind": "dragoman", "name": name, "precision": precision, "shortlist": shortlist})
    for precision in arguments.peer_precisions:
        for isa in arguments.isa:
            environment = {} if isa == "auto" else {"CT2_FORCE_CPU_ISA": isa}
            for translators, threads in ((CORES, 1), (1, CORES)):
                kind = {"kind": "ctranslate2", "precision": precision, "environment": environment}
                name = f"CTranslate2 {precision} {isa} {translators}x{threads}"
                where = batches if threads == 1 else [batch for batch in batches if batch == ALONE]
                system = {**common, **kind, "name": name, "translators": translators, "threads": threads}
                found.append({**system, "batches": where})
    for precision in arguments.hugging_face:
        kind = {"kind": "hugging_face", "precision": precision, "part": 0.05}
        where = [batch for batch in batches if batch != ALONE]
        found.append({**common, **kind, "name": f"generate {precision}", "batches": where})
    return found


def some_of(lines: Sequence[str], batch: int, part: float) -> Sequence[str]:
    """The lines for a batch size: a part for what is slow, but a batch for every core at least."""
    wanted = len(lines) * part * {ALONE: 0.05, 1: 0.2}.get(batch, 1)
    return lines[: min(len(lines), max(round(wanted), CORES * batch, 20))]


def measure(arguments: argparse.Namespace, exported: Path) -> dict[str, Any]:
    from rich.console import Console
    from rich.table import Table

    from dragoman.data.readers import parse_corpus, read_corpora
    from dragoman.evaluation.metrics import translation_metrics
    from dragoman.text.tokenizer import Tokenizer

    # What our facade would split, as the others do not.
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
                some = some_of(lines, batch, worker.part if repeat else min(worker.part, 0.1))
                found = worker.run(some, beam, batch)
                if repeat == 0:
                    continue  # warms up
                rates.setdefault((worker.name, beam, batch), []).append(found["tokens"] / found["seconds"])
                if len(some) == len(lines):
                    texts[worker.name, beam] = found["texts"]
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
    table = Table(title=f"{arguments.model}: subwords a second, median (lowest to highest of {arguments.repeats})")
    table.add_column("system")
    for beam, batch in cells:
        table.add_column(title(beam, batch), justify="right")
    for name in names:
        row = []
        for cell in cells:
            seen = sorted(rates.get((name, *cell), []))
            row.append(f"{statistics.median(seen):,.0f}\n{seen[0]:,.0f}-{seen[-1]:,.0f}" if seen else "")
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


# What a user's first script would be.
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
pieces = processor.encode("Turn off the light.", out_type=str) + ["</s>"]
print(processor.decode(translator.translate_batch([pieces])[0].hypotheses[0]))
""",
}


def starts(arguments: argparse.Namespace, exported: Path) -> dict[str, Any]:
    """Seconds from process start to a first translation, and peak memory of fresh processes; medians."""
    from dragoman.data.readers import parse_corpus, read_corpora

    lines = [pair.source for pair in read_corpora([parse_corpus(test) for test in arguments.test])][:500]
    quantized = exported / "quantized"
    found: dict[str, Any] = {}
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
        found[system["name"]] = {
            "seconds to first translation": round(statistics.median(seconds), 2),
            "peak memory, MB": round(statistics.median(memory)),
        }
        print(f"{system['name']}: {found[system['name']]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--test", nargs="+", default=[])
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--beams", type=int, nargs="+", default=BEAMS)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--precisions", nargs="+", default=["int8", "bf16", "fp32"])
    parser.add_argument("--peer-precisions", nargs="+", default=["int8"])
    parser.add_argument("--isa", nargs="+", default=["auto", "AVX512"], help="of CTranslate2")
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
        figures = measure(arguments, exported)
        fresh = starts(arguments, exported)
    ours = figures["ratios"][f"Dragoman {arguments.precisions[0]}"]
    print(json.dumps({"least_ratio": min(ours.values()), **figures, "fresh": fresh}))


if __name__ == "__main__":
    main()
