#include "app/cli/cli_reading.h"

#include <cstdio>
#include <memory>
#include <stdexcept>

#include "app/cli/printing.h"
#include "core/files/text/text_escape.h"
#include "core/logs/runs/log_runs.h"
#include "core/logs/standard_input.h"
#include "core/training/engine/lock_step.h"

namespace moescope {

void add_routed_options(Command& command, RoutedShape& routed) {
  command
      .option("--layers", routed.layers,
              "Layers of the model, for a file that does not state them (default: the file's)")
      .range(1, to_int(kMaxImportedLayers));
  command
      .option("--top-k", routed.top_k,
              "Experts of a token in a layer, for a file that does not state them (default: the file's)")
      .range(1, 1024);
  command
      .option("--experts", routed.experts,
              "Experts of a layer, for a file that does not state them; higher numbers of routed experts are slots "
              "without an expert (default: the highest)")
      .range(1, to_int(kMaxImportedExperts));
}

std::string input_path(const std::string& file) {
  static std::unique_ptr<StandardInput> input;
  if (file != kStandardInput) return file;
  if (input) throw std::runtime_error("- (standard input) is named twice, but can be read only once");
  input = std::make_unique<StandardInput>();
  input->wait_for_end({});
  if (const std::string problem = input->problem(); !problem.empty())
    throw std::runtime_error("standard input: " + problem);
  return input->path();
}

void add_run_option(Command& command, std::string& run) {
  command.option(
      "--run", run,
      "The run to read, of a file that holds several (recordings, mlflow.db, folders of TensorBoard and W&B): "
      "its name; of MLflow also its id");
}

OpenedRuns read_runs(const std::string& file, const std::string& run, const RoutedShape& routed) {
  ImportOptions options;
  options.routed = routed;
  if (!run.empty()) options.only = {run};
  OpenedRuns opened = open_runs({file}, options, kMaxRuns);
  if (run.empty() || opened.more.empty()) return opened;  // readers of logs choose the run themselves
  std::vector<std::string> names;
  for (const auto& history : opened.histories) names.push_back(history->info().name);
  check_choice(file, names, options);
  std::erase_if(opened.histories, [&](const auto& history) { return !is_wanted(options, history->info().name); });
  return opened;
}

void print_missing(const RecordingReader& recording) {
  if (!recording.missing().empty()) print_to(stderr, "moescope-cli: {}\n", recording.missing());
}

void print_remarks(const OpenedRuns& opened) {
  for (const std::string& remark : opened.remarks) print_to(stderr, "{}\n", printable(remark));
}

void print_notes(const OpenedRuns& opened) {
  print_remarks(opened);
  for (const SkippedLines& file : opened.skipped)
    print_to(stderr, "{}: {}\n", printable(file.path), printable(file.bad.summary()));
}

}  // namespace moescope
