#!/usr/bin/env bash
# Builds the playground, the planner as a page in a browser: scripts/site.sh [FOLDER], build/site by default.
#
# FOLDER/index.html works from a file or any server, and needs nothing else but FOLDER/planner.js. The compiler is the Clang in
# PyPI's ziglang. Exits with 77 if PyPI cannot be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

site=${1-build/site}
scripts/python_env.sh build/ziglang ziglang==0.17.1
zig=$(build/ziglang/bin/python -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).resolve().parent / "zig")')
export ZIG_GLOBAL_CACHE_DIR=$PWD/build/ziglang/cache  # what it has compiled
cmake -S apps/playground -B build/playground -G Ninja -DZIG="$zig" >build/ziglang/configure.log
cmake --build build/playground
mkdir -p "$site"
cp apps/playground/page/planner.js "$site"
python3 - "$site" <<'PYTHON'
import base64, gzip, pathlib, sys
site, page = pathlib.Path(sys.argv[1]), pathlib.Path("apps/playground/page")
wasm = base64.b64encode(gzip.compress(pathlib.Path("build/playground/planner.wasm").read_bytes(), mtime=0)).decode()
with (site / "planner.js").open("a") as script:
    script.write(f"const PLANNER_GZIP = '{wasm}';\nconst CPU = {pathlib.Path('docs/two-cores.json').read_text()};\n")
html = (page / "playground.html").read_text()
for name, file in (("PLAN_CSS", "train/report/page/plan_page.css"), ("PLAYGROUND_CSS", page / "playground.css"),
                   ("PLAYGROUND_JS", page / "playground.js")):
    html = html.replace(f"@{name}@", pathlib.Path(file).read_text())
(site / "index.html").write_text(html)
PYTHON
du -h "$site"/*
