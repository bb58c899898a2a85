"""Worker processes: what they translate, and what happens when they end, hang, or are replaced."""

import asyncio
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.alignment.heads import AlignmentHead
from dragoman.errors import ModelError, SettingsError
from dragoman.models.description import ModelDescription
from dragoman.models.storage import save_model, weights_of
from dragoman.models.transformer import build_transformer
from dragoman.search.config import SearchConfig
from dragoman.serving.interfaces.own.schemas import AttentionAnswer
from dragoman.serving.lines import LineOptions
from dragoman.serving.request_error import RequestError
from dragoman.serving.workers import attention_process, processes
from dragoman.serving.workers.pool import Pool
from dragoman.translation.results import Translation
from dragoman.translation.translator import Translator
from tests.support.hung_thread import busiest_thread, hung_thread
from tests.support.serving_pool import PAIR, SLOW, SLOW_LINE, is_running, running_pool, until, workers_of
from tests.support.small_translator import WORDS, model_config, tokenizer, write_model

HEAD = AlignmentHead(layer=0, head=None, from_input=True)
LINES = [" ".join(WORDS[number:] + WORDS[:number]) for number in range(len(WORDS))]
FAST = LineOptions(beam=1)
SENTENCE, OUTPUT = "the lamp is on", "the door is open"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = write_model(tmp_path_factory.mktemp("model"), 0, right_to_left=False)
    HEAD.save(directory)
    return directory


@pytest.fixture
def changing_model(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


async def outcomes_of(tasks: list[asyncio.Task[Translation]]) -> tuple[list[Translation], list[BaseException]]:
    results = await asyncio.gather(*tasks, return_exceptions=True)
    errors = [each for each in results if isinstance(each, BaseException)]
    return [each for each in results if isinstance(each, Translation)], errors


def test_attention_is_computed_by_a_process_that_ends_when_it_is_idle(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_process, "IDLE_SECONDS", 0.3)

    async def check() -> None:
        async with running_pool(model) as pool:
            assert pool._current is not None
            translating = pool.attention(PAIR, SENTENCE, OUTPUT, "json")
            translation = asyncio.create_task(pool.translate_line(PAIR, LINES[2], FAST))
            answer = AttentionAnswer.model_validate_json(await translating)
            assert (answer.text, answer.translation) == (SENTENCE, OUTPUT)
            weights = answer.weights["encoder_decoder"]
            assert [len(row) for row in weights[0][0]] == [len(answer.source)] * len(answer.predicted)
            assert all(sum(row) == pytest.approx(1, abs=0.01) for row in weights[0][0])
            await translation
            pid = pool._current.attention._process.pid  # type: ignore[union-attr]
            await until(lambda: not is_running(pid))
            assert "<html" in await pool.attention(PAIR, SENTENCE, OUTPUT, "html")

    asyncio.run(check())


def test_attention_is_refused_for_long_sentences_and_when_too_many_wait(model: Path) -> None:
    async def check() -> None:
        async with running_pool(model) as pool:
            with pytest.raises(RequestError, match="at most 64") as error:
                await pool.attention(PAIR, "lamp " * 100, "lamp", "json")
            assert error.value.status == 400
            tasks = [asyncio.create_task(pool.attention(PAIR, SENTENCE, OUTPUT, "json")) for _ in range(6)]
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(each, str) for each in results] == [True] * 4 + [False] * 2
            # A sentence that is given up frees its place at once.
            task = asyncio.create_task(pool.attention(PAIR, SENTENCE, OUTPUT, "json"))
            await asyncio.sleep(0)
            task.cancel()
            assert await pool.attention(PAIR, SENTENCE, OUTPUT, "json")

    asyncio.run(check())


def test_results_are_those_of_the_translator(model: Path) -> None:
    translator = Translator.load(model, device="cpu")
    lines = [*LINES, "", "lamp", " ".join(LINES * 3), "x" * 3000, "the\ud800 lamp"]
    search = SearchConfig(beam=3, n_best=2)

    async def translations() -> list[Translation]:
        async with running_pool(model) as pool:
            assert await pool.ready()
            options = LineOptions(beam=3, n_best=2)
            return await asyncio.gather(*(pool.translate_line(PAIR, line, options) for line in lines))

    assert asyncio.run(translations()) == [translator.translate([line], search=search)[0] for line in lines]


def test_prefixes_and_alignments(model: Path) -> None:
    translator = Translator.load(model, device="cpu")
    line = " ".join(LINES[:3])

    async def translations() -> list[Translation]:
        async with running_pool(model, workers=1) as pool:
            return [
                await pool.translate_line(PAIR, line, replace(FAST, prefix="the lamp")),
                await pool.translate_line(PAIR, line, replace(FAST, alignment=True)),
            ]

    greedy = SearchConfig(beam=1)
    assert asyncio.run(translations()) == [
        *translator.translate([line], search=greedy, prefixes=["the lamp"]),
        *translator.translate([line], search=greedy, alignment=HEAD),
    ]


def test_probabilities_of_words(model: Path) -> None:
    line = " ".join(LINES[:3])

    async def translation() -> Translation:
        async with running_pool(model, workers=1) as pool:
            return await pool.translate_line(PAIR, line, replace(FAST, words=True))

    found = asyncio.run(translation())
    assert found.word_probabilities is not None
    assert len(found.word_probabilities) == len(found.text.split(" "))
    # All tokens but the end.
    assert 1 >= math.prod(found.word_probabilities) >= math.exp(found.log_probability)


def test_requests_that_cannot_be_answered(model: Path, tmp_path: Path) -> None:
    without_head = write_model(tmp_path, 1, right_to_left=True)
    backward = ("de", "en")

    async def statuses() -> list[int]:
        pool = Pool({PAIR: [model], backward: [without_head]}, threads=1)
        await pool.start()
        found = []
        for pair, line, options in (
            (("en", "fr"), "lamp", FAST),
            (PAIR, "lamp", LineOptions(beam=10_000)),
            (PAIR, "lamp", LineOptions(beam=1, n_best=2)),
            (backward, "lamp", LineOptions(alignment=True)),
            (backward, "lamp", LineOptions(prefix="the")),
            (PAIR, "a" * (17 << 20), FAST),
        ):
            with pytest.raises(RequestError) as refused:
                await pool.translate_line(pair, line, options)
            found.append(refused.value.status)
        assert (await pool.translate_line(backward, "lamp", FAST)).segments == 1
        optional = LineOptions(alignment=True, alignment_required=False)
        assert (await pool.translate_line(backward, "lamp", optional)).alignment is None
        assert pool.statistics().in_flight == pool.statistics().characters == pool.statistics().restarts == 0
        await pool.close()
        with pytest.raises(RequestError) as refused:
            await pool.translate_line(PAIR, "lamp", FAST)
        return [*found, refused.value.status]

    assert asyncio.run(statuses()) == [400, 400, 400, 400, 400, 413, 503]


def test_ensembles_are_loaded_by_the_workers(model: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path, 1, right_to_left=False)

    async def translation() -> Translation:
        pool = Pool({PAIR: [model, other]}, threads=1)
        await pool.start()
        try:
            return await pool.translate_line(PAIR, LINES[0], FAST)
        finally:
            await pool.close()

    [expected] = Translator.load(model, other, device="cpu").translate([LINES[0]], search=SearchConfig(beam=1))
    assert asyncio.run(translation()).text == expected.text


def test_models_that_cannot_be_loaded(model: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(model, tmp_path / "damaged"))
    (damaged / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelError, match="is not a model directory"):
        asyncio.run(Pool({PAIR: [tmp_path / "none"]}).start())
    with pytest.raises(ModelError):
        asyncio.run(Pool({PAIR: [damaged]}).start())
    # A model that each worker loads by itself, with torch.
    with pytest.raises(ModelError):
        asyncio.run(Pool({PAIR: [model, damaged]}).start())
    with pytest.raises(SettingsError, match="shortlist"):
        asyncio.run(Pool({PAIR: [model, model]}, shortlist=True).start())
    with pytest.raises(SettingsError, match="at least one model"):
        Pool({})
    with pytest.raises(SettingsError, match="no model directory"):
        Pool({PAIR: []})
    with pytest.raises(SettingsError, match="workers"):
        Pool({PAIR: [model]}, workers=0)
    with pytest.raises(SettingsError, match="threads"):
        Pool({PAIR: [model]}, threads=0)


def test_a_killed_worker_fails_only_its_lines(model: Path) -> None:
    async def check() -> None:
        async with running_pool(model) as pool:
            tasks = [asyncio.create_task(pool.translate_line(PAIR, LINES[0], SLOW)) for _ in range(12)]
            await until(lambda: pool.statistics().in_flight == 12)
            victim, survivor = workers_of(pool)
            lost = victim.in_flight
            assert lost == survivor.in_flight == 6
            os.kill(victim.pid, signal.SIGKILL)
            await until(lambda: pool.statistics().restarts == 1)
            assert await until(lambda: pool.statistics().workers == 2) < 5
            translations, errors = await outcomes_of(tasks)
            assert (len(errors), len(translations)) == (lost, 12 - lost)
            assert {(each.status, each.retry_after) for each in errors if isinstance(each, RequestError)} == {(503, 1)}
            assert await pool.ready()

    asyncio.run(check())


def test_lines_wait_for_the_only_worker(model: Path) -> None:
    async def check() -> None:
        async with running_pool(model, workers=1) as pool:
            for _ in range(3):
                [worker] = workers_of(pool)
                os.kill(worker.pid, signal.SIGKILL)
                await worker.wait()
                assert not await pool.ready()
                assert (await pool.translate_line(PAIR, "lamp", FAST)).segments == 1
            assert pool.statistics().restarts == 3

    asyncio.run(check())


def test_a_stopped_worker_is_replaced(model: Path) -> None:
    async def check() -> None:
        async with running_pool(model) as pool:
            victim = workers_of(pool)[0]
            os.kill(victim.pid, signal.SIGSTOP)
            assert not await pool.ready()
            await until(lambda: not is_running(victim.pid))
            await until(lambda: pool.statistics().workers == 2)
            assert await pool.ready()
            assert pool.statistics().restarts == 1

    asyncio.run(check())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_worker_whose_engine_hangs_is_replaced(model: Path, threads: int) -> None:
    """A thread of the engine hangs, and the worker still answers what it is asked."""

    async def check() -> None:
        async with running_pool(model, workers=1, threads=threads) as pool:
            line = asyncio.create_task(pool.translate_line(PAIR, SLOW_LINE * 100, SLOW))
            await until(lambda: pool.statistics().in_flight == 1)
            await asyncio.sleep(0.5)
            [victim] = workers_of(pool)
            with hung_thread(busiest_thread(victim.pid)):
                # Another thread may still translate, until the worker is replaced.
                assert threads == 2 or not await pool.ready()
                await until(lambda: not victim.alive, 5)
                with pytest.raises(RequestError) as lost:
                    await line
            assert (lost.value.status, lost.value.retry_after) == (503, 1)
            assert await until(lambda: pool.statistics().workers == 1) < 5
            assert pool.statistics().restarts == 1
            assert await pool.ready()

    asyncio.run(check())


def test_a_busy_engine_is_not_killed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long lines for one thread take many times as long as an engine may hang."""
    monkeypatch.setattr(processes, "PING_SECONDS", 0.1)

    async def check() -> None:
        async with running_pool(model, workers=1) as pool:
            options = LineOptions(beam=20)
            tasks = [asyncio.create_task(pool.translate_line(PAIR, SLOW_LINE * 4, options)) for _ in range(64)]
            translations, errors = await outcomes_of(tasks)
            assert errors == []
            assert len({each.text for each in translations}) == 1
            assert pool.statistics().restarts == 0

    asyncio.run(check())


def test_a_nursery_that_ended_is_started_again(model: Path) -> None:
    async def check() -> None:
        async with running_pool(model) as pool:
            assert pool._current is not None
            nursery = pool._current._nursery
            os.kill(nursery._process.pid, signal.SIGKILL)
            # Its workers translate without it.
            assert await pool.ready()
            os.kill(workers_of(pool)[0].pid, signal.SIGKILL)
            await until(lambda: pool.statistics().restarts == 1)
            await until(lambda: pool.statistics().workers == 2, 30)
            assert await pool.ready()
            assert pool._current._nursery is not nursery

    asyncio.run(check())


def test_reloading_loses_no_line(changing_model: Path, tmp_path: Path) -> None:
    old = Translator.load(changing_model, device="cpu")
    new = Translator.load(write_model(tmp_path, 1, right_to_left=False), device="cpu")
    expected = [{each.translate([line], search=SearchConfig(beam=1))[0].text for each in (old, new)} for line in LINES]

    async def check() -> None:
        async with running_pool(changing_model) as pool:
            before = workers_of(pool)
            ended = False

            async def client(number: int) -> int:
                count = 0
                while not ended:
                    assert (await pool.translate_line(PAIR, LINES[number], FAST)).text in expected[number]
                    count += 1
                return count

            clients = [asyncio.create_task(client(number)) for number in range(8)]
            slow = asyncio.create_task(pool.translate_line(PAIR, LINES[0], SLOW))
            await asyncio.sleep(0.1)
            write_model(changing_model, 1, right_to_left=False)
            await pool.reload()
            after = await pool.translate_line(PAIR, LINES[0], FAST)
            assert after.text == new.translate([LINES[0]], search=SearchConfig(beam=1))[0].text
            assert (await slow).text == old.translate([LINES[0]], search=SearchConfig(beam=SLOW.beam))[0].text
            ended = True
            assert min(await asyncio.gather(*clients)) > 0
            await until(lambda: not any(is_running(worker.pid) for worker in before))
            assert (pool.statistics().workers, pool.statistics().restarts, pool.statistics().reloads) == (2, 0, 1)

    asyncio.run(check())


def test_models_that_cannot_be_reloaded_leave_the_old(changing_model: Path) -> None:
    async def check() -> None:
        async with running_pool(changing_model) as pool:
            before = workers_of(pool)
            (changing_model / "model.safetensors").write_bytes(b"half a training")
            with pytest.raises(ModelError):
                await pool.reload()
            assert workers_of(pool) == before
            assert pool.statistics().reloads == 0
            assert await pool.ready()

    asyncio.run(check())


def test_cancelled_lines_free_their_place(model: Path) -> None:
    async def check() -> None:
        async with running_pool(model, workers=1) as pool:
            # Many batches of segments: hours of work.
            long = asyncio.create_task(pool.translate_line(PAIR, SLOW_LINE * 5000, SLOW))
            await until(lambda: pool.statistics().in_flight == 1)
            await asyncio.sleep(0.2)
            long.cancel()
            with pytest.raises(asyncio.CancelledError):
                await long
            assert (await pool.translate_line(PAIR, "lamp", FAST)).segments == 1
            assert pool.statistics().in_flight == pool.statistics().characters == 0

    asyncio.run(check())


def test_closing_waits_for_lines_in_flight(model: Path) -> None:
    async def check() -> None:
        async with running_pool(model, workers=1) as pool:
            line = asyncio.create_task(pool.translate_line(PAIR, LINES[0], SLOW))
            await until(lambda: pool.statistics().in_flight == 1)
            [worker] = workers_of(pool)
            closing = asyncio.create_task(pool.close(grace=60))
            await asyncio.sleep(0)
            with pytest.raises(RequestError, match="not running"):
                await pool.translate_line(PAIR, "lamp", FAST)
            assert not await pool.ready()
            await closing
            assert line.done()
            assert line.result().segments > 0
            await until(lambda: not is_running(worker.pid))

    asyncio.run(check())


@pytest.mark.parametrize("cancelled", [False, True])
def test_closing_ends_with_the_grace(model: Path, cancelled: bool) -> None:
    async def check() -> None:
        async with running_pool(model, workers=1) as pool:
            line = asyncio.create_task(pool.translate_line(PAIR, SLOW_LINE * 5000, SLOW))
            await until(lambda: pool.statistics().in_flight == 1)
            [worker] = workers_of(pool)
            closing = asyncio.create_task(pool.close(grace=60 if cancelled else 0.1))
            await asyncio.sleep(0.1)
            if cancelled:
                closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            with pytest.raises(RequestError) as refused:
                await line
            assert refused.value.status == 503
            await until(lambda: not is_running(worker.pid))

    asyncio.run(check())


def private_bytes(pid: int) -> int:
    """Return the size of the memory that a process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def test_workers_share_the_weights(tmp_path: Path) -> None:
    tokenizer().save(tmp_path)
    config = replace(model_config(), d_model=512, heads=8, d_ff=2048, encoder_layers=2, decoder_layers=2)
    description = ModelDescription(architecture="transformer", model=config, trained_length=20)
    save_model(tmp_path, description, weights_of(build_transformer(config)))

    async def check() -> None:
        pool = Pool({PAIR: [tmp_path]}, workers=2, threads=1, precision="fp32")
        await pool.start()
        try:
            assert await pool.ready()
            private = [private_bytes(worker.pid) for worker in workers_of(pool)]
        finally:
            await pool.close()
        weights = (tmp_path / "model.safetensors").stat().st_size
        assert weights > 50_000_000
        assert max(private) < weights / 2, private

    asyncio.run(check())


def test_signals_of_the_terminal_do_not_end_workers(model: Path) -> None:
    async def check() -> None:
        async with running_pool(model, workers=1) as pool:
            assert pool._current is not None
            [worker] = workers_of(pool)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(worker.pid, number)
                os.kill(pool._current._nursery._process.pid, number)
            assert await pool.ready()
            assert workers_of(pool) == [worker]

    asyncio.run(check())


_SERVER = """
import asyncio, sys
from pathlib import Path
from tests.support.serving_pool import running_pool, workers_of

async def main():
    async with running_pool(Path(sys.argv[1])) as pool:
        processes = [pool._current._nursery._process.pid, *(worker.pid for worker in workers_of(pool))]
        print(*processes, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_processes_end_with_the_server(model: Path) -> None:
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(model)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server, server.stdout:
        processes = [int(word) for word in server.stdout.readline().split()]
        assert list(map(is_running, processes)) == [True] * 3
        # A worker that hangs ends, too.
        os.kill(processes[1], signal.SIGSTOP)
        server.kill()
    asyncio.run(until(lambda: not any(map(is_running, processes))))
