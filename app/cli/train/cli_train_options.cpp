#include "app/cli/train/cli_train_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "app/program/program_start.h"
#include "core/checkpoints/training_start.h"
#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/files/text/words.h"
#include "core/numerics/threads.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/run_groups.h"

namespace moescope {

Option add_config_options(Command& sub, TrainOptions& o, const std::string& comparisons, const std::string& twins) {
  sub.last_counts();
  const Option preset =
      sub.option("--preset", o.preset,
                 fmt::format("Start from a preset: {} (default: small){}", joined(preset_names(), ", "), comparisons));
  sub.option("--config", o.config, "Start from a TOML file; keys that it leaves out keep their defaults" + twins)
      .excludes(preset);
  sub.option("--set", o.set, "KEY=VALUE: one key of the config, such as router.top_k=4; may be repeated").repeatable();
  return preset;
}

void add_train_options(Command& sub, TrainOptions& o) {
  const Option preset =
      add_config_options(sub, o, "; or from a comparison of several runs: " + joined(comparison_preset_names(), ", "),
                         ". Tables [[compare]] in it are twins, as --compare makes them");
  const Option from =
      sub.option("--from", o.from,
                 "Start from the weights of a checkpoint of transformers (DeepSeek-V2 or -V3): a folder with "
                 "config.json, which "
                 "gives the settings of the model, .safetensors, whose weights the run begins with, and "
                 "tokenizer.json, whose tokens it reads. Optimizer, schedule and steps begin anew")
          .excludes(preset);
  sub.option("--data", o.data,
             "Text file or folder to train on (default: built-in text, see data.generator in a saved config)");
  sub.option("--precision", o.precision,
             "Recipe of number formats of the routed experts: " + joined(recipes(), ", ", &RecipeInfo::name) +
                 " (other weights: --set precision.attention=..., see precision.* in a saved config)");
  sub.option("--seed", o.seed, "Seed of weights and data");
  sub.option("--steps", o.steps,
             "Total number of steps, including those before --resume (default: optimizer.total_steps; the schedule is "
             "not changed)")
      .range(std::int64_t{0}, std::int64_t{1000000000000});
  sub.option("--threads", o.threads,
             "Threads to train on, of each rank (default: one per core, shared by the ranks on this machine); results "
             "do not depend on it")
      .range(1, kMaxThreadCount);
  sub.option("--matrix-units", o.matrix_units,
             "Matrix units for BF16 and quantized operands: auto (what is faster than OpenBLAS: AMX, or AVX-512's BF16 "
             "on AMD), amx, avx512_bf16, or off (OpenBLAS). Each multiplies exactly and adds in its own order")
      .one_of({"auto", "amx", "avx512_bf16", "off"});
  sub.option("--portable", o.portable,
             "Multiply in one order on every processor, so that losses have the same bits on every machine; short for "
             "--set portable=true");
  sub.option("--ep", o.ep,
             "Expert-parallel ranks: spreads experts and sequences over the processes that mpirun -n EP started, "
             "bit-identically")
      .range(1, kMaxThreadCount);
  sub.option("--ranks-per-node", o.ranks_per_node,
             "With --ep: neighbouring ranks that count as one node (default: all)")
      .range(1, kMaxThreadCount);
  sub.option("--all-to-all", o.all_to_all,
             "With --ep: flat, or hierarchical: rows for another node are sent to it once and forwarded there")
      .one_of({"flat", "hierarchical"});
  sub.option("-o,--out", o.out, "Recording to write, for the window and for sqlite3");
  sub.option("--jsonl", o.jsonl, "JSON lines to write, one object per step; - is standard output");
  sub.option("--checkpoint", o.checkpoint,
             "Folder for checkpoints, DIR/<step>/<name>.safetensors; one is written at the end (default: with --out, "
             "the folder beside the recording: run.checkpoints for run.moescope)");
  sub.option("--every", o.checkpoint_interval, "Steps between further checkpoints")
      .range(std::int64_t{1}, std::int64_t{1000000000});
  sub.option("--resume", o.resume, "Resume from the newest checkpoint in this folder, with its config, bit-identically")
      .excludes(from);
  sub.option(
         "--compare", o.compare,
         fmt::format(
             "KEY=VALUE[,KEY=VALUE...]: train a twin with these settings changed, on the same batches, and report the "
             "difference at the end; may be repeated, up to {} twins. More than three train in groups, one after the "
             "other, each beside run A; --out then names a recording for each group, NAME-1.moescope, NAME-2.moescope, "
             "...",
             kMaxCandidates))
      .repeatable();
  sub.option("--noise-twin", o.noise_twin,
             "Train a noise twin with another seed (other initial weights, same batches): its loss gap shows the "
             "effect of chance");
  sub.option("--perturbed-twin", o.perturbed_twin,
             "Train a noise twin whose first weights are perturbed in the last place: its loss gap shows the effect of "
             "chance with the same start and gives narrower intervals");
  sub.option("--dense-twin", o.dense_twins,
             "Train a twin without experts: dense feed-forwards with as many weights as a token multiplies in the run "
             "(active), or as the run has (total); may be given twice")
      .one_of({"active", "total"})
      .repeatable();
  sub.option("--epsilon", o.epsilon,
             "A comparison reports the first step with a larger loss difference than this (default: 0.05)")
      .range(0.0, 100.0);
  sub.option(
      "--table", o.table,
      "With --compare: table of outcomes to write, .csv or .json: loss, gap to run A with its interval and verdict, "
      "gradient error, flips, underflow, lowest and mean SQNR of the operands that differ in dB, MaxVio, tokens/s");
  const Option overwrite = sub.option("--overwrite", o.overwrite, "Replace existing files");
  sub.option("--continue", o.continues,
             "With more than four twins: keep the groups whose recordings an earlier start of this command finished, "
             "and train the others")
      .excludes(overwrite);
}

std::optional<Recipe> recipe_option(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (const auto recipe = recipe_named(name)) return recipe;
  throw std::runtime_error(
      fmt::format("--recipe: is \"{}\"; allowed: {}", name, joined(recipes(), ", ", &RecipeInfo::name)));
}

namespace {

namespace fs = std::filesystem;

// A value that the command line gives for a key of the config.
struct Override {
  std::string option;  // as the user wrote it: "--seed 3"
  Setting setting;
  ConfigValue value;
};

[[noreturn]] void refuse(const std::vector<ConfigProblem>& problems) {
  throw std::runtime_error(joined(problems, "\n", &ConfigProblem::text));
}

void add_override(std::vector<Override>& list, std::vector<ConfigProblem>& problems, const std::string& option,
                  Setting setting, const std::string& text) {
  try {
    list.push_back({option, setting, parse_value(setting.field(), text)});
  } catch (const std::invalid_argument& problem) {
    problems.push_back({"", 0, option, setting.key() + ' ' + problem.what()});
  }
}

// Adds KEY=VALUE, as the user wrote it after `option`.
void add_setting(std::vector<Override>& list, std::vector<ConfigProblem>& problems, const std::string& option,
                 const std::string& setting) {
  const std::size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  if (equals == std::string::npos)
    problems.push_back({"", 0, option, "expected KEY=VALUE, such as router.top_k=4"});
  else if (const ConfigField* field = find_field(key))
    add_override(list, problems, option, *field, setting.substr(equals + 1));
  else
    problems.push_back({"", 0, option, "no such key, did you mean " + nearest_key(key) + "?"});
}

std::vector<Override> read_overrides(const TrainOptions& o, std::vector<ConfigProblem>& problems) {
  std::vector<Override> list;
  if (o.data) add_override(list, problems, "--data " + *o.data, &DataConfig::path, *o.data);
  if (o.portable) add_override(list, problems, "--portable", &RunConfig::portable, "true");
  if (o.seed)
    add_override(list, problems, fmt::format("--seed {}", *o.seed), &RunConfig::seed, std::to_string(*o.seed));
  if (!o.precision.empty())
    add_override(list, problems, "--precision " + o.precision, &PrecisionConfig::experts, o.precision);
  if (o.ep > 0) {  // each process is one virtual rank
    add_override(list, problems, fmt::format("--ep {}", o.ep), &ParallelConfig::ranks, std::to_string(o.ep));
    const std::string per_node = std::to_string(o.ranks_per_node > 0 ? o.ranks_per_node : o.ep);
    add_override(list, problems, "--ranks-per-node " + per_node, &ParallelConfig::ranks_per_node, per_node);
  }
  for (const std::string& setting : o.set) add_setting(list, problems, "--set " + setting, setting);
  return list;
}

ParsedConfig named_config(const TrainOptions& o) {
  if (!o.from.empty()) {
    ParsedConfig start;
    start.config = run_from_checkpoint(o.from);
    return o.config.empty() ? start : load_config(o.config, start.config);
  }
  if (!o.config.empty()) return load_config(o.config);
  return load_preset(o.preset.empty() ? "small" : o.preset);
}

// Returns the run that the options name, and the twins of its [[compare]] tables. Options apply to all of them, except
// to a key in which a twin differs.
std::vector<RunConfig> named_runs(const TrainOptions& o) {
  ParsedConfig parsed = named_config(o);
  std::vector<ConfigProblem> problems = std::move(parsed.problems);
  const std::vector<Override> overrides = read_overrides(o, problems);
  std::vector<RunConfig> runs = all_runs(parsed);
  for (RunConfig& run : runs) {
    const std::vector<ConfigDifference> own_differences = difference(parsed.config, run);
    for (const Override& change : overrides)
      if (std::ranges::none_of(own_differences, [&](const ConfigDifference& d) { return d.setting == change.setting; }))
        change.setting.field().set(run, change.value);
  }
  // The problems of the file are already in the list; these checks are for the runs with their overrides.
  for (const RunConfig& run : runs)
    if (problems.empty() && !o.from.empty()) problems = TrainingStart(o.from).contradictions(run);
  for (const RunConfig& run : runs)
    if (problems.empty()) problems = validate(run);
  if (!problems.empty()) refuse(problems);
  return runs;
}

RunConfig twin_config(const RunConfig& first, const std::string& settings) {
  const std::string option = "--compare " + settings;
  std::vector<Override> changes;
  std::vector<ConfigProblem> problems;
  std::istringstream list(settings);
  for (std::string setting; std::getline(list, setting, ',');) add_setting(changes, problems, option, setting);
  RunConfig twin = first;
  for (const Override& change : changes) change.setting.field().set(twin, change.value);
  twin.name = twin_name(first, twin);
  if (problems.empty()) problems = validate(twin);
  if (!problems.empty()) refuse(problems);
  if (const std::string problem = lock_step_problem(first, twin); !problem.empty())
    throw std::runtime_error(option + ": " + problem);
  if (difference(first, twin).empty()) throw std::runtime_error(option + ": is the run's value already");
  return twin;
}

RunConfig dense_twin_config(const RunConfig& first, const std::string& size) {
  const std::string option = "--dense-twin " + size;
  if (first.model.n_dense_layers == first.model.n_layers)
    throw std::runtime_error(fmt::format("{}: all layers of {} are dense", option, first.name));
  RunConfig twin = dense_twin(first, size == "total" ? DenseSize::total : DenseSize::active);
  twin.name = twin_name(first, twin);
  if (const auto problems = validate(twin); !problems.empty()) refuse(problems);
  return twin;
}

}  // namespace

std::vector<RunConfig> fresh_configs(const TrainOptions& o) {
  std::vector<RunConfig> configs = named_runs(o);
  std::vector<RunConfig> twins;
  for (const std::string& settings : o.compare) twins.push_back(twin_config(configs.front(), settings));
  for (const std::string& size : o.dense_twins) twins.push_back(dense_twin_config(configs.front(), size));
  if (o.noise_twin) twins.push_back(noise_twin(configs.front()));
  if (o.perturbed_twin) twins.push_back(perturbed_twin(configs.front()));
  if (configs.size() + twins.size() > 1 + kMaxCandidates)
    throw std::runtime_error(
        fmt::format("--compare: {} twins; allowed: {}", configs.size() + twins.size() - 1, kMaxCandidates));
  for (RunConfig& twin : twins) {
    for (const RunConfig& other : configs)
      if (difference(twin, other).empty())
        throw std::runtime_error("--compare: the same twin twice (" + twin.name + ')');
    twin.name = free_name(twin.name, configs);
    configs.push_back(std::move(twin));
  }
  return configs;
}

namespace {

// A resumed run has the settings of its checkpoint. An option may repeat a setting but not change it.
void refuse_conflicts(const TrainOptions& o, const RunConfig& config) {
  std::vector<ConfigProblem> problems;
  const auto compare = [&](const std::string& option, const ConfigField& field, const ConfigValue& new_value) {
    const ConfigValue old_value = field.get(config);
    if (old_value != new_value)
      problems.push_back({"", 0, option,
                          fmt::format("conflicts with --resume: the checkpoint was trained with {} = {}{}", field.key,
                                      to_string(old_value),
                                      option.find('=') == std::string::npos ? ", not " + to_string(new_value) : "")});
  };
  for (const Override& change : read_overrides(o, problems))
    compare(change.option, change.setting.field(), change.value);
  if (!o.config.empty() || !o.preset.empty()) {
    const ParsedConfig named = named_config(o);
    problems.insert(problems.end(), named.problems.begin(), named.problems.end());
    const std::string option = o.config.empty() ? "--preset " + o.preset : "--config " + o.config;
    for (const ConfigField& field : config_fields()) compare(option, field, field.get(named.config));
  }
  if (!problems.empty()) refuse(problems);
}

}  // namespace

std::string kernels_of_checkpoint(const TrainOptions& o) {
  try {
    const KernelCheck check = use_recorded_kernels(checkpoint_kernels(newest_checkpoint(o.resume).front()));
    return check.outcome == KernelCheck::Outcome::equal ? "" : check.text;
  } catch (const std::exception&) {
    return {};  // resumed_trainers() reports this error on all ranks
  }
}

std::vector<Trainer> resumed_trainers(const TrainOptions& o, Ranks* ranks) {
  if (o.compares())
    throw std::runtime_error("--compare and twins start from the beginning, so they cannot be used with --resume");
  const std::vector<std::string> files = newest_checkpoint(o.resume);
  if (ranks && files.size() > 1)
    throw std::runtime_error(fmt::format("{}: holds {} runs, but --ep trains one",
                                         fs::path(files.front()).parent_path().string(), files.size()));
  std::vector<Trainer> trainers;
  for (const std::string& file : files) trainers.push_back(Trainer::resume(file, ranks));
  refuse_conflicts(o, trainers.front().config());
  return trainers;
}

}  // namespace moescope
