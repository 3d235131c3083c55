#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/cli_reading.h"
#include "app/cli/command_line.h"
#include "core/checkpoints/export_model.h"
#include "core/config/config_difference.h"
#include "core/config/run_config.h"
#include "core/config/setup_link.h"
#include "core/files/output_guard.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/findings/comparison/gap_track.h"
#include "core/findings/comparison/same_settings.h"
#include "core/findings/comparison/training_recipe.h"
#include "core/findings/replay/replay_page.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_exports.h"
#include "core/logs/open_runs.h"
#include "core/numerics/operating_system.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/lock_step.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string in, to, out, panel, workspace, size, run, with;
  bool overwrite = false;
  std::optional<std::int64_t> step;
};

// Continues as the window program without a display, since only that program draws panels.
[[noreturn]] void let_window_export(const ExportOptions& options) {
  const std::string program = (fs::path(program_path()).parent_path() / "moescope").string();
  if (!fs::exists(program))
    throw std::runtime_error(
        fmt::format("--to {} needs the window program beside this one: {}: no such file", options.to, program));
  std::vector<std::string> words = {program, options.in, "--export", options.out, "--to", options.to};
  for (const auto& [name, value] : {std::pair<const char*, const std::string&>{"--panel", options.panel},
                                    {"--workspace", options.workspace},
                                    {"--size", options.size}})
    if (!value.empty()) words.insert(words.end(), {name, value});
  if (options.overwrite) words.emplace_back("--overwrite");
  if (options.step) words.insert(words.end(), {"--step", std::to_string(*options.step)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  setenv("QT_QPA_PLATFORM", "offscreen", 1);
  std::fflush(nullptr);
  execv(program.c_str(), arguments.data());
  throw std::runtime_error(program + ": cannot be started: " + std::strerror(errno));
}

// Returns the steps of a noise twin up to `until`, the last at which it differs from the first run by chance alone.
HistoryPtr part_until(const HistoryPtr& run, std::int64_t until) {
  return until < run->steps().last ? beginning_of(*run, until) : run;
}

ReplayRun trained_run(const History& first, const HistoryPtr& run) {
  const auto first_settings = first.settings_at_start(), run_settings = run->settings_at_start();
  const RunConfig &a = *first_settings->config(), &b = *run_settings->config();
  ReplayRun replay{run, same_start(a, b)};
  if (is_noise_twin(a, b)) replay.twin = part_until(run, same_changes_until(first, *run));
  return replay;
}

ReplayRun logged_run(const History& first, const HistoryPtr& run) {
  const LogSettings a = first.settings_at_start()->log(), b = run->settings_at_start()->log();
  ReplayRun replay{run};
  for (const LogDifference& found : difference(a, b)) replay.same_start &= found.key != "seed";
  if (const auto until = same_settings_until(a, b)) replay.twin = part_until(run, *until);
  return replay;
}

// Returns the set-up link of the runs; empty if the settings of a run are not known.
std::string setup_of(const OpenedRuns& opened) {
  SharedSetup setup;
  for (const auto& history : opened.histories) {
    const auto settings = history->settings_at_start();
    if (!settings->config()) return {};
    setup.configs.push_back(*settings->config());
  }
  return setup_link(setup);
}

// The settings show which runs are noise twins of the first.
std::vector<ReplayRun> replay_runs(const OpenedRuns& opened) {
  std::vector<ReplayRun> runs;
  for (const auto& history : opened.histories) {
    const History& first = *opened.histories.front();
    if (runs.empty())
      runs.push_back({history});
    else if (!first.settings_at_start()->config() || !history->settings_at_start()->config())
      runs.push_back(logged_run(first, history));
    else
      runs.push_back(trained_run(first, history));
  }
  if (!runs.empty()) runs.front().setup = setup_of(opened);
  return runs;
}

// Writes a page that plays the runs in a browser, or the training recipes of the runs with the verdicts on them.
void export_compared(const ExportOptions& options) {
  std::vector<std::string> files = {options.in};
  if (!options.with.empty()) files.push_back(options.with);
  const std::vector<ReplayRun> runs = replay_runs(open_runs(files, ImportOptions{}, kMaxRuns));
  if (options.to == "recipe" && runs.size() == 1)
    throw std::runtime_error(options.in + ": has one run; a recipe rests on a comparison: name another by --with");
  const std::string text = options.to == "recipe" ? compared_recipes(runs) : replay_page(runs);
  write_whole_file(options.out, text);
  print_out("{}: {} runs, {:.3g} MB\n", printable(options.out), runs.size(), 1e-6 * text.size());
}

void export_all_events(const ExportOptions& options) {
  const OpenedRuns opened = read_runs(options.in, options.run);
  std::vector<std::string> names;
  for (const auto& history : opened.histories) names.push_back(history->info().name);
  const std::vector<std::string> folders = event_folders(options.out, names, false);
  for (const std::string& folder : folders)
    for (const std::string& earlier : exported_events(folder))
      guard_outputs({options.in}, {{"--out", earlier}}, options.overwrite);
  const auto written = fs::last_write_time(options.in).time_since_epoch();
  const auto system_time = std::chrono::system_clock::now().time_since_epoch();
  const auto file_now = fs::file_time_type::clock::now().time_since_epoch();
  const double ended = std::chrono::duration<double>(system_time - (file_now - written)).count();
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const History& history = *opened.histories[i];
    print_out("{}\n", printable(export_events(history, folders[i], ended - step_seconds(history))));
  }
}

RoutedText routed_text_of(const ExportOptions& options) {
  const OpenedRuns opened = read_runs(options.in, options.run);
  const History& run = *opened.histories.front();
  try {
    return routed_text(run, options.step.value_or(run.steps().last));
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error(options.in + ": " + problem.what());
  }
}

void export_routed_experts(const ExportOptions& options) {
  const RoutedText routed = routed_text_of(options);
  write_whole_file(options.out, routed.npy);
  print_out("{}: {} of step {}, {} tokens, {} layers, {} experts of a token\n", printable(options.out),
            text_kind_name(routed.kind), routed.step, routed.tokens, routed.layers, routed.top_k);
}

OutputFile output_of(const ExportOptions& options) {
  OutputFile output{.option = "--out", .path = options.out, .folder = options.to == "tensorboard"};
  if (options.to == "checkpoint") output.files = exported_files();
  return output;
}

void export_tensors(const ExportOptions& options) {
  const bool checkpoint = options.in.ends_with(".safetensors");
  const std::string from = checkpoint ? options.in : kept_checkpoint(options.in, options.run, options.step);
  guard_outputs({from}, {output_of(options)}, options.overwrite);
  ExportedModel exported;
  if (options.to == "checkpoint") {
    check_checkpoint(from);
    exported = export_for_transformers(from, options.out);
  } else {
    exported.tensors = export_weights(from, options.out);
  }
  Report report;
  report.sentence(fmt::format("{}: {} tensors of {}", options.out, exported.tensors, from));
  if (!exported.tokenizer.empty()) report.sentence("tokenizer of " + exported.tokenizer);
  for (const std::string& note : exported.notes) report.sentence(note);
  print_report(report);
}

bool is_comparison(const ExportOptions& options) {
  return options.to == "replay" || options.to == "recipe";
}

void check(const ExportOptions& options, const Command& command) {
  if (!fs::exists(options.in)) throw std::runtime_error(options.in + ": no such file");
  if (!options.with.empty() && !fs::exists(options.with)) throw std::runtime_error(options.with + ": no such file");
  const std::pair<const char*, std::vector<std::string>> kFormats[] = {
      {"--panel", {"png", "svg", "csv"}},
      {"--workspace", {"png", "svg"}},
      {"--size", {"png", "svg"}},
      {"--with", {"replay", "recipe"}},
      {"--step", {"png", "svg", "csv", "routed-experts", "safetensors", "checkpoint"}},
      {"--run", {"tensorboard", "routed-experts", "safetensors", "checkpoint"}}};
  for (const auto& [option, formats] : kFormats)
    if (std::ranges::find(formats, options.to) == formats.end())
      command.refuse({option}, "needs --to with one of " + joined(formats, ", "));
  if (options.to == "csv" && options.panel.empty())
    throw std::runtime_error("--to csv needs --panel NAME; --panel list prints the titles");
}

void export_run(const ExportOptions& options, const Command& command) {
  check(options, command);
  if (options.panel != "list") guard_outputs({options.in, options.with}, {output_of(options)}, options.overwrite);
  if (file_kind(options.in) == FileKind::recording) print_missing(RecordingReader(options.in));
  if (options.to == "jsonl")
    export_jsonl(options.in, options.out);
  else if (options.to == "trace")
    export_trace(options.in, options.out);
  else if (options.to == "tensorboard")
    export_all_events(options);
  else if (options.to == "routed-experts")
    export_routed_experts(options);
  else if (is_comparison(options))
    export_compared(options);
  else if (options.to == "safetensors" || options.to == "checkpoint")
    export_tensors(options);
  else
    let_window_export(options);
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  Command command(app, "export", "Write a recording in a format that other programs read");
  command
      .option("RECORDING", options->in,
              "Recording (.moescope); for tensorboard, replay and pictures any training log, "
              "for safetensors and checkpoint a checkpoint, too")
      .required();
  command.option("--to", options->to, command_notes("export_to"))
      .required()
      .one_of({"png", "svg", "csv", "jsonl", "tensorboard", "trace", "routed-experts", "safetensors", "checkpoint",
               "html", "replay", "recipe"});
  command.option("-o,--out", options->out, "File (tensorboard, checkpoint: folder) to write").required();
  command.option("--overwrite", options->overwrite, "Replace an existing file");
  command.option("--panel", options->panel, "Panel by its title, for example \"Loss\"; list: prints the titles");
  command.option("--workspace", options->workspace, "Workspace: overview (default), router, compare, ...");
  command.option(
      "--size", options->size,
      "Size of the panel or the window on a screen, for example 900x500; a png has three times as many pixels");
  command.option("--step", options->step, "Step to show, or step of the checkpoint (default: the newest)")
      .range(std::int64_t{0}, INT64_MAX);
  command.option("--with", options->with, "Second recording or log for --to replay or recipe");
  command.option("--run", options->run,
                 "safetensors, checkpoint: run whose weights are written (default: the first); "
                 "tensorboard, routed-experts: the run of a file that holds several");
  command.runs([options, command] { export_run(*options, command); });
}

}  // namespace moescope
