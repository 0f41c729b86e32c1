"""The tables of compare_pytorch.py: what it prints, and those of the documents, each from a file of results with its name, or from several."""
import json
import statistics

from program import ROOT, relative, write_table

BASELINE = "PyTorch"
FLOOR_GOAL = 1.3  # a step over its floor, at most
SHARED_CACHE_NS = 100  # cores that share a cache hand a line over in less
ALL_RESULTS = ROOT / "benchmarks/results/pytorch-cpu.json"
GPU_RESULTS = [ROOT / f"benchmarks/results/{name}.json" for name in ("h100", "h100-batch1", "h200", "h200-batch256")]


def median_of(result, name, key="unread_seconds"):
    return next((statistics.median(program[key]) for program in result["programs"] if program["name"] == name), None)


def fastest(result, prefix, without=()):
    """(seconds, name) of the fastest program of one side; None if none ran."""
    times = [(median_of(result, program["name"]), program["name"]) for program in result["programs"]
             if program["name"].startswith(prefix) and program["name"] not in without]
    return min(times, default=None)


def ratios(result):
    """(best of PyTorch over best of Braid, Braid's serial plan over its best concurrent one); None where unknown."""
    serial = "Braid, 1 stream"
    pytorch, braid = fastest(result, BASELINE), fastest(result, "Braid")
    alone, concurrent = median_of(result, serial), fastest(result, "Braid", without=(serial,))
    return (pytorch[0] / braid[0] if pytorch and braid else None,
            alone / concurrent[0] if alone and concurrent else None)


def geometric_mean(values):
    values = [value for value in values if value is not None]
    return statistics.geometric_mean(values) if values else None


def cell(value, form):
    return "" if value is None else form.format(value)


def cpu_table(results):
    lines = ["| config | batch | threads | program | step, median (min–max) | images/s | "
             "speedup of Braid within a turn: median (quartiles) | peak memory |",
             "|---|---|---|---|---|---|---|---|"]
    for result in results:
        options, programs = result["options"], result["programs"]
        braid = programs[0]["step_seconds"]
        for program in programs:
            times = program["step_seconds"]
            median = statistics.median(times)
            lower, middle, upper = relative(times, braid)
            ratio = "" if program is programs[0] else f"{middle:.2f}× ({lower:.2f}–{upper:.2f})"
            lines.append(f"| {result['config']} | {options['batch_size']} | {options['threads']} | {program['name']} | "
                         f"{1e3 * median:.2f} ms ({1e3 * min(times):.2f}–{1e3 * max(times):.2f}) | "
                         f"{options['batch_size'] / median:.0f} | {ratio} | {program['peak_bytes'] / 2**20:.0f} MiB |")
    return "\n".join(lines)


def against_fastest(result):
    """Braid, the fastest mode of PyTorch and its name, and the quartiles of the ratio of their times."""
    braid, *others = result["programs"]
    best = min(others, key=lambda program: statistics.median(program["step_seconds"]))
    return braid, best, best["name"].partition(", ")[2] or "eager", relative(best["step_seconds"], braid["step_seconds"])


def memory_share(result, without_import=False):
    """Braid's memory over that of the fastest mode of PyTorch, all of it or what it takes on top of its import."""
    braid, best, *_ = against_fastest(result)
    return braid["peak_bytes"] / (best["peak_bytes"] - (result["imported_bytes"] if without_import else 0))


def speedup(result):
    return against_fastest(result)[3][1]


def times_floor(result):
    """Braid's step over its floor."""
    return 1e3 * statistics.median(result["programs"][0]["step_seconds"]) / result["floor_ms"]


def speedups(results):
    middles = [speedup(result) for result in results if not result["failed"]]
    return f"\nGeometric mean {geometric_mean(middles):.2f}×, least {min(middles):.2f}×.\n" if middles else ""


def turns_by_cache(result):
    """The ratios of the turns in which the cores shared a cache throughout, and of those in which they did not at some time."""
    braid, best, *_ = against_fastest(result)
    ratios = {True: [], False: []}
    for handovers, mine, theirs in zip(result.get("handover_ns", []), braid["step_seconds"], best["step_seconds"]):
        ratios[max(handovers) < SHARED_CACHE_NS].append(theirs / mine)
    return ratios[True], ratios[False]


def all_table(measured):
    """Braid's speedup over the fastest mode of PyTorch, for each step."""
    pytorch = next((result["pytorch"] for result in measured["results"] if not result["failed"]), "did not run")
    imported = measured["results"][0]["imported_bytes"]
    yield (f"{measured['date']}, commit {measured['commit']}; {measured['machine']}; PyTorch {pytorch}, which takes {imported / 2**20:.0f} MiB "
           "when imported.\n\n")
    yield ("| network | images | batch | Braid, ms | PyTorch, ms | fastest mode | Braid is faster by: median (quartiles) | memory, of PyTorch's | "
           "of what it takes on top of its import | Braid, times its floor | turns with a shared cache |\n" + "|---" * 11 + "|\n")
    for result in measured["results"]:
        place = f"| {result['config']} | {result['image_size']}×{result['image_size']} | {result['batch_size']} | "
        if result["failed"]:
            yield f"{place}{result['failed']} |\n"
            continue
        braid, best, mode, (lower, middle, upper) = against_fastest(result)
        milliseconds = [1e3 * statistics.median(program["step_seconds"]) for program in (braid, best)]
        shared, others = map(len, turns_by_cache(result))
        share = f"{shared} of {shared + others}" if shared + others else "unknown"
        yield (f"{place}{milliseconds[0]:.1f} | {milliseconds[1]:.1f} | {mode} | {middle:.2f}× ({lower:.2f}–{upper:.2f}) | "
               f"{memory_share(result):.2f} | {memory_share(result, True):.2f} | {times_floor(result):.2f} | {share} |\n")
    yield speedups(measured["results"])


def short_cpu_table(results):
    """The steps of the largest batches of large images, and a line about all."""
    yield "| network, batch 8, 224×224 | Braid | PyTorch, the faster eager mode | speedup of Braid |\n|---|---|---|---|\n"
    for result in results:
        if not result["failed"] and (result["batch_size"], result["image_size"]) == (8, 224):
            braid, best, mode, (_, middle, _) = against_fastest(result)
            cells = [f"{1e3 * statistics.median(program['step_seconds']):.0f} ms, {program['peak_bytes'] / 2**20:.0f} MiB" for program in (braid, best)]
            yield f"| {result['config']} | {cells[0]} | {cells[1]} ({mode}) | {middle:.2f}× |\n"
    yield speedups(results).replace("Geometric mean", f"Of {len(results)} steps: geometric mean")


def short_gpu_table():
    """For each network and batch in bf16, the first of the files that have it."""
    yield ("| GPU | network | batch | PyTorch, CUDA graph | Braid, one stream | Braid, several | over PyTorch | over one stream | "
           "simulated / measured |\n" + "|---" * 9 + "|\n")
    shown = set()
    for file in GPU_RESULTS:
        measured = json.loads(file.read_text())
        gpu = measured["machine"].split("NVIDIA ")[1].split(",")[0].split()[0]
        for result in measured["results"]:
            cell_of = (result["config"], result["batch_size"])
            if result["precision"] != "bf16" or cell_of in shown:
                continue
            shown.add(cell_of)
            times = " | ".join(f"{1e3 * median_of(result, name):.3g} ms" for name in ("PyTorch, CUDA graph", "Braid, 1 stream", "Braid, auto"))
            auto = next(program for program in result["programs"] if program["name"] == "Braid, auto")
            predicted = auto["simulated_makespan_us"] / 1e6 / statistics.median(auto["unread_seconds"])
            over = " | ".join(f"{ratio:.2f}×" for ratio in ratios(result))
            yield f"| {gpu} | {result['config']} | {result['batch_size']} | {times} | {over} | {predicted:.2f} |\n"


def op_rows(results, most=10):
    yield f"Microseconds of the device in a step, by op, the {most} longest (Braid: alongside other nodes; PyTorch: eager):\n"
    yield "| network | batch | precision | program | clock | all | ops |"
    yield "|---|---|---|---|---|---|---|"
    for result in results:
        for name, answer in result["ops"].items():
            listed = ", ".join(f"{op['op']} {op['measured_us']:.0f}" +
                               (f" at {1e-3 * op['bytes'] / op['measured_us']:.0f} GB/s" if op.get("bytes") else "")
                               for op in answer["ops"][:most])
            yield (f"| {result['config']} | {result['batch_size']} | {result['precision']} | {name} | {answer['clock']} | "
                   f"{sum(op['measured_us'] for op in answer['ops']):.0f} | {listed} |")
    yield ""


def gpu_tables(results):
    names = list(dict.fromkeys(program["name"] for result in results for program in result["programs"]))

    def rows(title, columns, cells):
        yield f"{title}\n"
        yield "| network | batch | precision | " + " | ".join(columns) + " |"
        yield "|---" * (3 + len(columns)) + "|"
        for result in results:
            yield f"| {result['config']} | {result['batch_size']} | {result['precision']} | " + " | ".join(cells(result)) + " |"
        yield ""

    def times(key, scale=1e3, form="{:.3f}"):
        return lambda result: [cell(None if (t := median_of(result, name, key)) is None else scale * t, form) for name in names]

    def memory(result):
        found = {program["name"]: program.get("memory_bytes") or program.get("arena_bytes", 0) + program["persistent_bytes"]
                 for program in result["programs"]}
        return [cell(found.get(name) and found[name] / 2**20, "{:.0f}") for name in names]

    lines = [*rows("Milliseconds per step without reading the loss; speedup of Braid's best over PyTorch's and its own serial plan:",
                   [*names, "over PyTorch", "over serial"],
                   lambda result: times("unread_seconds")(result) + [cell(ratio, "{:.2f}×") for ratio in ratios(result)]),
             *rows("Milliseconds per step, reading the loss after each:", names, times("step_seconds")),
             *rows("Microseconds of host time to start a step:", names, times("host_seconds", 1e6, "{:.0f}")),
             *op_rows(results),
             *rows("Memory in MiB: arena, weights and state of Braid; peak allocation of PyTorch:", names, memory)]
    pytorch, serial = (geometric_mean([ratios(result)[i] for result in results]) for i in (0, 1))
    lines.append(f"Geometric means: {cell(pytorch, '{:.3f}×')} over the best of PyTorch, "
                 f"{cell(serial, '{:.3f}×')} over Braid's serial plan.")
    return "\n".join(lines)


def document_table(measured):
    """Milliseconds of steps without reading the loss, and how they compare with what was simulated."""
    yield f"{measured['date']}, commit {measured['commit']}; {measured['machine']}; PyTorch {measured['results'][0]['pytorch']}."
    if limits := measured.get("ceilings"):
        yield (f"At most, this GPU copies {limits['copy_gb_s']} GB/s (bytes read and written), and multiplies matrices of 8192×8192 at "
               f"{limits['bf16_tflops']} TFLOP/s in bf16 and {limits['tf32_tflops']} in tf32.")
    yield ""
    yield ("| network | batch | precision | Braid, 1 stream | Braid, auto | streams | PyTorch, eager | PyTorch, CUDA graph | "
           "over PyTorch | over one stream | simulated / measured: 1 stream | auto |")
    yield "|---" * 12 + "|"
    for result in measured["results"]:
        def time(name):
            return cell(median_of(result, name) and 1e3 * median_of(result, name), "{:.3f}")

        serial, auto = (next(p for p in result["programs"] if p["name"] == name) for name in ("Braid, 1 stream", "Braid, auto"))
        yield (f"| {result['config']} | {result['batch_size']} | {result['precision']} | {time(serial['name'])} | "
               f"{time(auto['name'])} | {auto['streams']} | {time('PyTorch, eager')} | {time('PyTorch, CUDA graph')} | " +
               " | ".join(cell(ratio, "{:.2f}×") for ratio in ratios(result)) + " | " +
               " | ".join(f"{program['simulated_makespan_us'] / 1e6 / statistics.median(program['unread_seconds']):.2f}"
                          for program in (serial, auto)) + " |")
    if len(measured["results"]) == 1:
        return
    means = [geometric_mean([ratios(result)[i] for result in measured["results"]]) for i in (0, 1)]
    yield f"\nGeometric means: {means[0]:.2f}× over PyTorch's best, {means[1]:.2f}× over one stream."


def check_document(results, update):
    measured = json.loads(results.read_text())
    if not results.stem.startswith(ALL_RESULTS.stem):
        write_table(results, [line + "\n" for line in document_table(measured)], check=not update)
        return write_table(results, short_gpu_table(), check=not update, name="gpu, short")
    write_table(results, all_table(measured), check=not update)
    if results.stem == ALL_RESULTS.stem:
        write_table(results, short_cpu_table(measured["results"]), check=not update, name="pytorch-cpu, short")
