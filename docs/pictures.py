"""Draw the pictures in docs/images from a trained model: python docs/pictures.py MODEL [SENTENCE]."""

import argparse
from collections.abc import Sequence
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
# Label, d_model and warm-up of each curve. The first is the paper's base model.
SCHEDULES = {
    "d_model 512, warm-up 4,000": (512, 4000),
    "d_model 512, warm-up 8,000": (512, 8000),
    "d_model 256, warm-up 4,000": (256, 4000),
}
UPDATES = 20_000
# Index of the source token whose attention the screenshot shows.
TOKEN = 7


def main() -> None:
    """Draw every picture and write it to docs/images."""
    options = read_options()
    translator = Translator.load(options.model)
    attention = translator.attention(options.sentence, without_heads=True)
    assert attention.encoder_self is not None, "the screenshot shows encoder self-attention, which this model lacks"
    head = Head("encoder_decoder", options.layer - 1, options.head - 1)
    schedules = {label: paper_schedule(*sizes) for label, sizes in SCHEDULES.items()}
    pictures = {
        "attention-head.png": attention.words().picture("png", head=head),
        "attention-heads.png": attention.picture("png"),
        "attention-page.png": screenshot(attention, layer=len(attention.encoder_self.weights)),
        "positions.png": draw_positions(sinusoidal_table(128, 128).numpy(), "png"),
        "schedule.png": draw_schedules(schedules, "png"),
    }
    for name, data in pictures.items():
        write_atomically(IMAGES / name, data)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="model directory")
    parser.add_argument("sentence", nargs="?", default="The device was turned off because it was too hot.")
    parser.add_argument("--layer", type=int, default=2, help="layer of the single head that is drawn, from 1")
    parser.add_argument("--head", type=int, default=1, help="the single head that is drawn, from 1")
    return parser.parse_args()


def paper_schedule(d_model: int, warmup: int) -> Sequence[float]:
    """Return the learning rate of each update by equation 3 of the paper."""
    config = ScheduleConfig(kind="paper", warmup=warmup)
    return [learning_rate(config, d_model, step, step / UPDATES) for step in range(1, UPDATES + 1)]


def screenshot(attention: AttentionMap, layer: int) -> bytes:
    """Return a PNG of the attention page in a browser.

    It shows encoder self-attention of `layer`, counted from 1, with the pointer on the query token `TOKEN`.
    """
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        attention.save(file)
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 800}, device_scale_factor=1.25)
        page.goto(file.as_uri())
        panel = page.locator("#panel-heads")
        panel.get_by_role("radiogroup", name="Layer").get_by_role("radio", name=str(layer), exact=True).click()
        panel.locator(f".query button[data-index='{TOKEN}']").hover()
        return page.screenshot()


if __name__ == "__main__":
    main()
