"""Take the screenshots of a report for the documentation: ``python benchmarks/pictures/shoot.py REPORT.html
docs/images``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

# name, width, height, color scheme, device pixels per CSS pixel, search text, scroll position
SHOTS = [
    ("report-desktop", 1280, 1320, "light", 1, "", 0),
    ("report-speed", 1280, 1130, "light", 1, "captioner-forward", 0),
    ("report-dark", 1280, 860, "dark", 1, "sizes_of_images", 0),
    ("report-phone", 375, 1100, "light", 2, "repeated", 330),
]
OPENED = "repeated_blocks"


def main(report: Path, folder: Path) -> None:
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, width, height, scheme, scale, searched, down in SHOTS:
            page = opened(browser, report, (width, height), scheme, scale)
            page.fill("#search", searched)
            shown = page.locator("details.test:visible")
            (shown if searched else shown.filter(has_text=OPENED)).first.locator("summary").click()
            page.evaluate(f"window.scrollTo(0, {down})")
            page.screenshot(path=folder / f"{name}.png")
        browser.close()


def opened(browser: Browser, report: Path, size: tuple[int, int], scheme: str, scale: int) -> Page:
    viewport = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, device_scale_factor=scale)
    page.goto(report.resolve().as_uri())
    return page


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
