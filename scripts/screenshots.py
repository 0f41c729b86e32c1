#!/usr/bin/env python3
"""Takes the pictures of the site that docs/scheduling.md and docs/course/README.md show: screenshots.py PROGRAM SITE, a folder that scripts/site.sh
has made. Needs Chromium."""
import base64
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/apps"))
PICTURES = {  # file: page, width and height, and what to do there and wait for
    "playground.png": ("playground.html#batch=2", 1280, 900, "0", "document.querySelectorAll('#overview .bar').length > 20"),
    "break-a-plan.png": ("break.html", 1280, 1120, "document.querySelector('.wait, [data-wait]')?.focus()", "true"),
    "course.png": ("course/05-why-gpu-kernels-do-not-overlap.html", 1280, 1100,
                   "[...document.querySelectorAll('button')].filter(each => each.textContent === 'Show anyway').forEach(each => each.click());"
                   "document.querySelector('[data-kind=sm]').scrollIntoView(); scrollBy(0, -80)", "true"),
}


def main():
    site = pathlib.Path(sys.argv.pop(2)).resolve()
    from browser import OpenPage  # which takes the path of the program
    for picture, (page, width, height, action, ready) in PICTURES.items():
        address, _, state = page.partition("#")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            with OpenPage(f"{(site / address).as_uri()}#{state}", folder, "--hide-scrollbars") as opened:
                opened.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
                opened.look(f"{action}; 0")
                opened.wait(ready)
                opened.look("new Promise(done => setTimeout(done, 500))")
                (ROOT / "docs" / picture).write_bytes(base64.b64decode(opened.call("Page.captureScreenshot", format="png")["data"]))
        print(f"docs/{picture}: {(ROOT / 'docs' / picture).stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
