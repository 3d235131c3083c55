#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/train/cli_progress.h"
#include "app/cli/train/cli_train_options.h"
#include "core/training/engine/engine.h"
#include "core/training/operand_scan.h"

namespace moescope {
namespace {

constexpr int kScanSchema = 1;  // version of --json; rises when a key changes its meaning or is removed

struct ScanOptions {
  TrainOptions run;
  std::string recipe;
  std::int64_t warmup = 100;
  bool json = false, csv = false, quiet = false;
};

std::unique_ptr<Engine> trained(const ScanOptions& o) {
  std::vector<Trainer> trainers;
  if (o.run.resume.empty())
    trainers.emplace_back(fresh_configs(o.run).front());
  else
    trainers.push_back(std::move(resumed_trainers(o.run, nullptr).front()));
  auto engine = std::make_unique<Engine>(std::move(trainers), EngineOptions{.compares_runs = false});
  const auto failed = [&] { return engine->trouble() && engine->trouble()->within_step; };
  const auto wants_step = [&] {
    if (!o.run.resume.empty() || failed()) return false;
    const std::int64_t steps = engine->next_step();
    if (!o.quiet && steps > 0) show_count("training", steps, o.warmup);
    return steps < o.warmup;
  };
  EngineObserver nobody;
  engine->train(wants_step, nobody);
  if (failed()) throw std::runtime_error(engine->trouble()->text());
  return engine;
}

ValueTable table_of(const std::vector<OperandEffect>& effects) {
  ValueTable table({{.name = "layer", .key = "layer"},
                    {.name = "class", .key = "class"},
                    {.name = "operand", .key = "operand"},
                    {.name = "GEMM", .key = "gemm"},
                    {.name = "recipe", .key = "recipe"},
                    {.name = "gradient error", .unit = "share", .digits = 3, .key = "gradient_error"},
                    {.name = "share of the squared error", .unit = "share", .key = "share", .format = ".1f"},
                    {.name = "loss change", .unit = "nats/token", .key = "loss_change", .format = "+.2e"}});
  for (const OperandEffect& effect : effects)
    table.add(effect.layer < 0 ? std::nullopt : std::optional(effect.layer), gemm_class_name(effect.gemm_class),
              operand_name(effect.operand), direction_name(effect.gemm), effect.recipe, effect.gradient_error,
              effect.share, effect.loss_change);
  return table;
}

Report report_of(const OperandScan& scan, const RunConfig& config, std::int64_t step) {
  Report report;
  report.value({.key = "moescope_scan"}, kScanSchema);
  report.value({.name = "run", .key = "run"}, config.name);
  report.value({.name = "step", .key = "step"}, step);
  report.value({.name = "cross-entropy of one batch in FP32", .unit = "nats/token", .digits = 6, .key = "loss_fp32"},
               scan.loss);
  report.value(
      {.name = "gradient error, all operands rounded", .unit = "share", .digits = 3, .key = "all.gradient_error"},
      scan.all_gradient_error);
  report.value(
      {.name = "loss change, all operands rounded", .unit = "nats/token", .key = "all.loss_change", .format = "+.3g"},
      scan.all_loss_change);
  report.sentence("one operand rounded at a time:");
  report.table("operands", table_of(scan.effects));
  return report;
}

void scan(const ScanOptions& o) {
  const std::optional<Recipe> recipe = recipe_option(o.recipe);
  const std::unique_ptr<Engine> engine = trained(o);
  Trainer& trainer = *engine->find(0);
  const RunConfig& config = trainer.config();
  const std::int64_t step = trainer.steps_taken();
  if (scanned_operands(config, recipe).empty())
    throw std::runtime_error("nothing of run " + config.name + " is rounded: give --recipe, or set [precision]");
  const auto found = trainer.scan_operands(engine->batch(step), recipe, [&](int done, int passes) {
    if (!o.quiet) show_count("pass", done, passes);
    return true;
  });
  const Report report = report_of(*found, config, step);
  if (o.csv)
    print_out("{}", report.csv());
  else
    print_report(report, o.json);
}

}  // namespace

void add_scan_command(CLI::App& app) {
  auto options = std::make_shared<ScanOptions>();
  Command command(app, "scan", "Round one operand at a time and rank the operands by the error of the gradient");
  TrainOptions& run = options->run;
  add_config_options(command, run);
  command.option("--resume", run.resume, "Resume the run from the newest checkpoint in this folder");
  command.option("--steps", options->warmup, "Steps to train before the scan, if no checkpoint is given")
      .range(std::int64_t{0}, std::int64_t{1000000000})
      .shows_default();
  command.option("--recipe", options->recipe, "Recipe by which operands are rounded, instead of the run's recipes");
  const Option json = command.option("--json", options->json, "Print JSON");
  command.option("--csv", options->csv, "Print CSV").excludes(json);
  command.option("--quiet", options->quiet, "No progress on the terminal");
  command.runs([options] { scan(*options); });
}

}  // namespace moescope
