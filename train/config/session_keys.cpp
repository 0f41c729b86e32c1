// The keys at the top level of all configs.

#include <algorithm>

#include "scheduler/costs/known_devices.h"
#include "scheduler/pipeline.h"
#include "scheduler/policy.h"
#include "train/config/config.h"

namespace braid {

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string hint_for_device(const std::string& device) {
  const bool known = std::ranges::count(scheduler::known_device_names(), device) > 0;
  return known ? "; to plan for it: braid plan --device " + device : "";
}

}  // namespace

void declare_name(const Keys& keys, std::string& name) {
  keys("name", name,
       {.pattern = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}",
        .form = "at most 100 letters, digits, '_', '-' and '.', beginning with a letter, digit or '_'",
        .hint = [](const std::string&) { return std::string("; it names the run's folder"); },
        .required = true,
        .synonyms = {"experiment", "run_name"}},
       "names the run's folder: up to 100 letters, digits, `_`, `-`, `.`");
}

void declare_seed(const Keys& keys, std::uint64_t& seed) {
  keys("seed", seed, {.synonyms = {"random_seed", "manual_seed"}},
       "seeds weights, dropout, sample order and augmentation. On CPU, runs with the same seed are bitwise equal for "
       "any streams, widths and threads. On CUDA, this also needs a fixed number of `streams`: with `auto`, times "
       "measured in the first steps select the plan, and with it the algorithms");
}

void declare_session(const Keys& keys, SessionOptions& session) {
  keys("device", session.device,
       {.pattern = "auto|cpu|cuda(:[0-9]{1,4})?",
        .form = "auto, cpu, cuda or cuda:<index>",
        .hint = hint_for_device,
        .synonyms = {"gpu", "solver_mode"}},
       "`auto`, `cpu`, `cuda` or `cuda:<index>`; `auto` is a CUDA device if one is usable, else the CPU");
  if (session.partition.empty()) {
    keys("streams", session.streams, {.min = 1, .max = 64, .word = "auto", .synonyms = {"num_streams"}},
         "streams to schedule on; `auto` measures the serial plan and concurrent ones alternately in the first steps, "
         "and "
         "keeps a concurrent one if it saves at least 2 % of the time; on CPU it plans these by the times that nodes "
         "take in the serial one, also tries plans with one core per stream, which must save 10 %, and compares again "
         "while training");
  }
  keys.section("streams", "streams with their own SMs")(
      "partition", session.partition, {.min = 1, .max = 1024, .min_items = 1, .max_items = 64, .unit = "SMs"},
      "on CUDA, instead of a number of streams: one stream for each entry, with this many SMs for itself; the hardware "
      "allocates SMs in groups (of 8 on Hopper)");
  if (!session.partition.empty()) session.streams = static_cast<int>(session.partition.size());
  keys("intra_op_threads", session.intra_op_threads,
       {.min = 1,
        .max = 1024,
        .word = "auto",
        .unit = "cores",
        .synonyms = {"intra_op_parallelism_threads"},
        .formerly = "width"},
       "cores that each node occupies on CPU; with `auto` the scheduler decides for each node");
  keys("threads", session.threads, {.min = 0, .max = 1024, .word = "all", .unit = "cores", .synonyms = {"num_threads"}},
       "cores to use on CPU; `all` (or 0) is every core the process may run on; more cause a warning");
  keys("policy", session.policy, {.words = scheduler::policy_names()},
       "how nodes are placed on streams: [see below](#policy)");
  keys("convolution", session.convolution, {.words = {"auto", "direct"}},
       "algorithms of convolutions: the fastest, or only direct ones: [see below](#convolution)");
  keys("deterministic", session.deterministic, {},
       "on CUDA, use only deterministic algorithms, and without a memory limit the same ones for any number of "
       "streams; results on CPU are always deterministic");
  keys("autotune", session.autotune, {.synonyms = {"cudnn_benchmark"}, .formerly = "benchmark"},
       "before planning, time all implementations of a node (cuDNN's algorithms, widths on CPU) instead of relying on "
       "estimates; those that the file of `profile` knows, or another session of the process has timed, are not timed "
       "again");
  keys("cuda_graphs", session.cuda_graphs, {}, "on CUDA, replay a plan that is used again as one CUDA graph");
  auto workspace = static_cast<std::int64_t>(session.workspace_limit / kMiB);
  keys("workspace_limit", workspace, {.min = 0, .max = 1 << 20, .unit = "MiB"},
       "on CUDA, limit of one kernel's workspace; algorithms that need more are excluded");
  session.workspace_limit = static_cast<std::size_t>(workspace) * kMiB;
  std::int64_t memory = session.memory_limit / std::int64_t{kMiB};
  keys("memory_limit", memory, {.min = 1, .max = 1 << 24, .word = "none", .unit = "MiB"},
       "limit of a step's arena, which holds activations, gradients and workspaces, but neither parameters nor "
       "optimizer "
       "state. A step that needs more gives up concurrency and workspace, or recomputes cheap activations (batch norm, "
       "ReLU, concatenation, pooling, dropout) instead of keeping them, whichever is predicted to be faster; the run "
       "prints the changes. "
       "Recomputation changes no bit of the results. If a training step still does not fit, the run ends with an error "
       "that states the smallest arena found. If evaluation does not fit, the run ends before training starts; try a "
       "smaller `eval.batch_size`");
  session.memory_limit = memory * std::int64_t{kMiB};
  const Keys parallel = keys.section("parallel", "training on several ranks", {"distributed", "ddp"});
  parallel.section("mesh", "ranks along each axis")(
      "data", session.parallel.mesh.data, {.min = 1, .max = 1 << 16, .word = "auto", .synonyms = {"world_size", "dp"}},
      "ranks that share the images of a step; `auto`: all that `mpirun` or `srun` starts");
  parallel(
      "virtual_ranks", session.parallel.virtual_ranks,
      {.min = 1,
       .max = 1 << 16,
       .word = "auto",
       .synonyms = {"micro_batches", "n_microbatches", "num_microbatches"},
       .formerly = "parallel.shards"},
      "equal parts of a batch, which must be a multiple of it. With a number, the results are bitwise equal on any "
      "number of ranks that divides it; `auto`: one for each rank, and gradients are added in the fastest order. They "
      "are the micro-batches of a pipeline, on any number of ranks; `auto`: the most that divide the batch into "
      "parts of at least four images, up to four for each stage");
  std::int64_t bucket = session.parallel.bucket_bytes / std::int64_t{kMiB};
  parallel(
      "bucket", bucket, {.min = 1, .max = 1 << 16, .word = "auto", .unit = "MiB", .synonyms = {"bucket_cap_mb"}},
      "gradients are communicated together until they have this size; `auto`: as many as the step is predicted to be "
      "fastest with");
  session.parallel.bucket_bytes = bucket * std::int64_t{kMiB};
  parallel("zero", session.parallel.zero,
           {.words = {"none", "optimizer", "parameters"},
            .synonyms = {"fsdp", "zero_stage", "zero_optimization", "sharding_strategy"},
            .formerly = "parallel.shard"},
           "what each rank holds an equal part of, to save memory: the optimizer's state and the parameters that it "
           "updates (`optimizer`), which a step then gathers once, or twice (`parameters`). Results keep their bits");
  parallel(
      "strategy", session.parallel.strategy, {.path = true},
      "the dimensions along which each layer is divided: `data`, samples for all; `owt` (one weird trick), channels "
      "for fully connected layers, whose parameters are split too; `layerwise`, those with the shortest simulated step "
      "among these and the ones with the shortest sums of predicted times; `auto`, whichever of "
      "these and `pipeline` has the shortest simulated step, both within `memory_limit`; or "
      "a file that names them for each layer, such as `{layers: {conv1: {h: 2, w: 2}, classifier.1: {c: 4}}}`. With "
      "`pipeline`, each rank has some of the layers, its stage; a file names the layers that stages begin with, but "
      "for the first, such as `{stages: [conv3, classifier.1]}`");
  parallel(
      "pipeline", session.parallel.pipeline, {.words = scheduler::kPipelines},
      "the order of the micro-batches in each stage: all forward passes first (`gpipe`), one forward, one backward "
      "pass (`1f1b`), the same with gradients of weights apart (`zb_h1`); `auto`: the shortest in simulation that "
      "holds the activations of no more micro-batches than there are stages");
  parallel("compression", session.parallel.compression.method, {.words = {"none", "top_k", "random_k", "int8", "sign"}},
           "what ranks send of gradients with at least 1024 elements; each rank adds what it leaves out to its next "
           "gradient: of every 1024 elements the largest (`top_k`) or random ones (`random_k`), a byte per element "
           "(`int8`), or its sign (`sign`)");
  parallel("compression_ratio", session.parallel.compression.ratio, {.above = 0, .max = 1},
           "the part of the elements that `top_k` and `random_k` send");
  parallel("staleness", session.parallel.staleness, {.min = 0, .max = 64, .unit = "steps"},
           "the age of the gradients that update parameters: ranks add them while they compute newer ones. The last "
           "gradients of a training are not used");
  parallel("average_every", session.parallel.average_every,
           {.min = 0, .max = KeyRule::kMaxCount, .unit = "steps", .synonyms = {"sync_period"}},
           "local SGD: every rank trains by itself, and ranks average their models and optimizers at this interval and "
           "after every epoch; 0: ranks add their gradients in every step");
  parallel(
      "elastic_beta", session.parallel.elastic_beta, {.min = 0, .below = 1, .synonyms = {"elastic", "easgd"}},
      "elastic averaging (EASGD) every `average_every` steps: a centre, which is what is validated and saved, moves "
      "by this share towards the mean of the ranks' models, and each model by the share over the number of ranks "
      "towards the centre; the paper has 0.9. 0: ranks take the mean");
  parallel("sync_batch_norm", session.parallel.sync_batch_norm, {.synonyms = {"sync_bn", "sync_batchnorm"}},
           "batch norm takes the mean and variance of the whole batch, not of each shard of it");
  parallel(
      "steps_per_execution", session.parallel.steps_per_execution,
      {.min = 1, .max = 64, .formerly = "parallel.steps_per_turn"},
      "steps that are planned and run as one: the next begins while gradients of the one before it are still "
      "communicated, those that it needs first before the others. With `streams: auto`, single steps are measured, "
      "too, and the faster are kept");
  double timeout = std::chrono::duration<double>(session.parallel.timeout).count();
  parallel("timeout", timeout, {.min = 0.1, .max = 1e6, .unit = "s"},
           "a rank that gives no sign of life, or does not come to a collective, for so long ends the training");
  session.parallel.timeout = std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(timeout));
  keys("profile", session.profile, {.path = true, .formerly = "costs"},
       "a file that `braid profile` wrote for this device, with durations of nodes, the interference of concurrent "
       "nodes, and what the link to other ranks costs; the scheduler uses them for what is in the file");
}

std::string_view precision_in_use(const TrainConfig& config, const DeviceInfo& device) {
  return config.dtype == DType::f32 && rounds_to_tf32(config.session, device) ? "tf32" : name_of(config.dtype);
}

void declare_precision(const Keys& keys, SessionOptions& session, DType& dtype) {
  const std::string_view of_f32 = !session.tf32.has_value() ? "auto" : *session.tf32 ? "tf32" : "f32";
  std::string precision(dtype == DType::f32 ? of_f32 : name_of(dtype));
  keys("precision", precision,
       {.words = {"auto", "f32", "tf32", "bf16", "f16"},
        .synonyms = {"dtype", "amp", "fp16", "bf16", "mixed_precision"}},
       "number format in which the model computes: [see below](#precision)");
  session.tf32 = precision == "auto" ? std::nullopt : std::optional(precision == "tf32");
  dtype = precision == "bf16" ? DType::bf16 : precision == "f16" ? DType::f16 : DType::f32;
}

void declare_output(const Keys& keys, std::string& root) {
  const Keys output = keys.section("output", "where results go");
  output("root", root, {.path = true, .synonyms = {"output_dir", "out_dir", "save_dir"}}, "parent of the run's folder");
  output.check("root", !root.empty(), "expected a folder, got ''");
}

}  // namespace braid
