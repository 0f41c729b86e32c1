#!/usr/bin/env python3
"""Assembles the site from docs/site and the planner that scripts/site.sh has compiled: make_site.py WASM FOLDER."""
import base64
import gzip
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs/site"


def write_planner(wasm, site):
    packed = base64.b64encode(gzip.compress(wasm.read_bytes(), mtime=0)).decode()
    constants = f"const PLANNER_GZIP = '{packed}';\nconst CPU = {(ROOT / 'docs/two-cores.json').read_text()};\n"
    (site / "planner.js").write_text((SOURCE / "planner.js").read_text() + constants)


def write_playground(site):
    html = (SOURCE / "playground.html").read_text()
    for name, file in (("PLAN_CSS", ROOT / "train/report/page/plan_page.css"), ("PLAYGROUND_CSS", SOURCE / "playground.css"),
                       ("PLAYGROUND_JS", SOURCE / "playground.js")):
        html = html.replace(f"@{name}@", file.read_text())
    (site / "playground.html").write_text(html)


def main():
    wasm, site = map(pathlib.Path, sys.argv[1:])
    site.mkdir(parents=True, exist_ok=True)
    write_planner(wasm, site)
    write_playground(site)


if __name__ == "__main__":
    main()
