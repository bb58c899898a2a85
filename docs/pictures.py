"""The pictures of docs/, from a trained model: python docs/pictures.py MODEL [SENTENCE]."""

import argparse
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from dragoman import Translator
from dragoman.attention_page.kinds import Head
from dragoman.attention_page.map import AttentionMap
from dragoman.attention_page.plots import draw_positions, draw_schedules
from dragoman.files import write_atomically
from dragoman.layers.positions import sinusoidal_table
from dragoman.training.schedule import ScheduleConfig, learning_rate

IMAGES = Path(__file__).parent / "images"
# Name: d_model and warm-up. The first is the paper's base model.
SCHEDULES = {
    "d_model 512, warm-up 4,000": (512, 4000),
    "d_model 512, warm-up 8,000": (512, 8000),
    "d_model 256, warm-up 4,000": (256, 4000),
}
UPDATES = 20_000


def paper_rates(d_model: int, warmup: int) -> list[float]:
    """Equation 3 of the paper, update by update."""
    config = ScheduleConfig(kind="paper", warmup=warmup)
    return [learning_rate(config, d_model, step, step / UPDATES) for step in range(1, UPDATES + 1)]


def photograph(attention: AttentionMap, layer: int) -> bytes:
    """The page in a browser, pointing at the eighth token."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        attention.save(file)
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 800}, device_scale_factor=1.25)
        page.goto(file.as_uri())
        panel = page.locator("#panel-heads")
        panel.get_by_role("radiogroup", name="Layer").get_by_role("radio", name=str(layer), exact=True).click()
        panel.locator(".query button[data-index='7']").hover()
        return page.screenshot()


def main() -> None:
    """Write every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("sentence", nargs="?", default="The device was turned off because it was too hot.")
    parser.add_argument("--layer", type=int, default=2)
    parser.add_argument("--head", type=int, default=1)
    options = parser.parse_args()
    # The page also shows what happens without each head.
    attention = Translator.load(options.model).attention(options.sentence, without_heads=True)
    chosen = Head("encoder_decoder", options.layer - 1, options.head - 1)
    pictures = {
        "attention-head.png": attention.words().picture("png", head=chosen),
        "attention-heads.png": attention.picture("png"),
        "positions.png": draw_positions(sinusoidal_table(128, 128).numpy(), "png"),
        "schedule.png": draw_schedules({name: paper_rates(*each) for name, each in SCHEDULES.items()}, "png"),
    }
    pictures["attention-page.png"] = photograph(attention, layer=len(attention.encoder_self.weights))
    for name, data in pictures.items():
        write_atomically(IMAGES / name, data)


if __name__ == "__main__":
    main()
