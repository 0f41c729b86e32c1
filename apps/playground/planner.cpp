// The planner as a page in a browser calls it: 'braid plan --json' in WebAssembly. A call reads and leaves one text.

#include <optional>
#include <string>

#include "apps/config_or_model.h"
#include "apps/playground/tasks.h"
#include "core/base/read_file.h"
#include "core/text/json.h"
#include "models/registry.h"
#include "scheduler/costs/cluster.h"
#include "scheduler/costs/known_devices.h"
#include "train/config/tree.h"
#include "train/inspect/plan_report.h"
#include "train/report/plan/chrome_trace.h"
#include "train/report/plan/explain.h"
#include "train/report/plan/plan_page.h"

namespace braid {

extern Json files;  // by name, what a page has in place of files: absent.cpp

namespace {

constexpr std::size_t kMostModels = 8;

std::string text;  // the request of a call, then its result
PlanReport report;
std::optional<scheduler::PlanView> measured;  // the step of a trace
int streams;                                  // that were asked for: a serial plan has one

/// The config of a model: a config in JSON is taken as it is.
std::string config_of(const std::string& model) {
  return model.starts_with('{') ? model : apps::config_of_model(model);
}
/// The same of several that train together.
std::string config_of(const std::vector<Json>& models) {
  if (models.size() == 1) return config_of(models[0].text());
  Json jobs = Json::array();
  for (const Json& model : models) {
    const Json config = parse_json(config_of(model.text()));
    Json& job = jobs.push_back(config.contains("places") ? config["config"] : config);
    job["name"] = message(model.text().starts_with('{') ? "job" : model.text(), '-', jobs.size());
  }
  return Json{{"name", "together"}, {"jobs", jobs}}.dump();
}

/// A number of the request; `otherwise` if it has none. 'braid plan' allows its options the same ranges.
double number(const JsonPart& request, const char* key, double otherwise, double low, double high) {
  if (!request.json.contains(key)) return otherwise;
  const double number = request[key].number(low);
  if (number > high) request[key].fail(message("must be at most ", high));
  return number;
}

std::string text_of(const Json& request, std::string_view key) {
  const Json* found = request.find(key);
  return found == nullptr ? "" : found->text();
}

/// {"models": names, or configs in JSON, "files": {name: content}; and as the options of 'braid plan': "device",
/// "streams", "policy", "batch_size", "memory_limit" (bytes), "forward"; if there is need, "sms", "scale_launch",
/// "scale_bandwidth", "wait", "ranks", "cluster", "strategy", "plan"; as the key of a config, "profile"; and "trace", a
/// file that 'braid train --trace' has written, whose times are drawn.
void plan(const Json& request) {
  const JsonPart part{request};
  files = request["files"];
  streams = static_cast<int>(part["streams"].integer(1, 64));
  if (const std::size_t models = part["models"].list().size(); models < 1 || models > kMostModels) {
    part["models"].fail(message("must be 1 to ", kMostModels, " models"));
  }
  PlanRequest wanted{.device = request["device"].text(),
                     .streams = {streams},
                     .policy = request["policy"].text(),
                     .batch_size = part["batch_size"].integer(0, 1 << 20),
                     .forward = request["forward"].as_bool(),
                     .memory_limit = part["memory_limit"].integer(0, std::int64_t{1} << 44),
                     .wait_microseconds = number(part, "wait", 0, 0, 1000),
                     .what_if = {.units = static_cast<int>(part.integer_or("sms", 0, 0, 1 << 16)),
                                 .launch_scale = number(part, "scale_launch", 1, 0, 1000),
                                 .bandwidth_scale = number(part, "scale_bandwidth", 1, 0.001, 1000)},
                     .ranks = static_cast<int>(part.integer_or("ranks", 1, 1, 1 << 20)),
                     .strategy = text_of(request, "strategy"),
                     .cluster = text_of(request, "cluster"),
                     .plan = text_of(request, "plan")};
  report = {};  // frees its memory first
  measured.reset();
  RunConfig config = read_run_config(parse_config(config_of(request["models"].elements()), "config"));
  const std::string profile = text_of(request, "profile"), trace = text_of(request, "trace");
  for (JobConfig& job : config.jobs) {
    DataConfig& data = job.training.data;
    data.root = data.file = data.val_file = data.test_file = "";  // it needs none of them
    if (!profile.empty()) job.training.session.profile = profile;
  }
  report = report_plan(std::move(config), wanted);
  if (!trace.empty()) measured = read_trace(read_file(trace, "the trace"), view_of(report));
}

/// Calls work(), and returns 0, or 1 if it threw; then the result is the error.
template <class Work>
int attempt(const Work& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    text = error.what();
    return 1;
  }
}

}  // namespace

#define BRAID_EXPORT(name) extern "C" __attribute__((export_name(#name)))

/// Memory for a request of this size.
BRAID_EXPORT(braid_request) char* braid_request(std::size_t bytes) {
  text.assign(bytes, ' ');
  return text.data();
}
BRAID_EXPORT(braid_result) const char* braid_result() { return text.data(); }
BRAID_EXPORT(braid_result_size) std::size_t braid_result_size() { return text.size(); }

/// What a request may name: {"models": […], "devices": […], "policies": […], "clusters": […]}.
BRAID_EXPORT(braid_names) int braid_names() {
  return attempt([] {
    Json models = Json::array();
    for (const std::string& name : models::model_names()) {
      models.push_back({{"name", name}, {"description", models::model_description(name)}});
    }
    text = Json{{"models", models},
                {"devices", scheduler::known_device_names()},
                {"policies", scheduler::policy_names()},
                {"clusters", scheduler::known_cluster_names()}}
               .dump();
  });
}
/// Plans; the result is what 'braid plan --json' prints.
BRAID_EXPORT(braid_plan) int braid_plan() {
  return attempt([] {
    plan(parse_json(text));
    text = to_json(report);
  });
}
/// Explains the last plan: {"block": a part of its step, or "", "policies": names, and "list"}. The result is what
/// 'braid explain --json' prints of these policies.
BRAID_EXPORT(braid_explain) int braid_explain() {
  return attempt([] {
    const Json request = parse_json(text);
    BRAID_CHECK(!report.rows.empty(), Error, "[explain] nothing is planned");
    scheduler::PlanView step = view_of(report);
    step.problem = with_streams(std::move(step.problem), streams);
    std::vector<scheduler::Explanation> explanations;
    for (const Json& policy : request["policies"].elements()) {
      explanations.push_back(explain(step, request["block"].text(), policy.text()));
    }
    text = to_json(explanations, readable_blocks(step));
  });
}
/// Plans a graph of tasks, as plan_tasks() says.
BRAID_EXPORT(braid_tasks) int braid_tasks() {
  return attempt([] { text = plan_tasks(parse_json(text)); });
}
/// The page of the last plan, as 'braid plan --html' writes it, or of its trace, as 'braid train --html', in two parts:
/// what it draws, and the rest, which is the same for all plans.
BRAID_EXPORT(braid_page_data) int braid_page_data() {
  return attempt([] { text = plan_page_data(measured ? *measured : view_of(report)); });
}
BRAID_EXPORT(braid_page_template) int braid_page_template() {
  return attempt([] { text = scheduler::kPageTemplate; });
}

}  // namespace braid
