#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "app/cli/cli_reading.h"
#include "app/cli/command_line.h"
#include "app/program/program_start.h"
#include "core/files/text/words.h"
#include "core/training/engine/retrain.h"

namespace moescope {
namespace {

constexpr int kStatusDiffers = 1;

struct ReproduceOptions {
  std::string path, run;
  std::int64_t steps = -1;
};

Reproduction reproduce_one(const RecordingReader& recording, const RunInfo& info, const KernelCheck& kernels,
                           std::int64_t steps) {
  const auto history = recording.load(info.run);
  Report beforehand;
  for (const std::string& input : inputs_to_reproduce(recording.runs().front(), info))
    beforehand.sentence(fmt::format("{}: reads {}", info.name, input));
  beforehand.sentence(fmt::format("{}: {}", info.name, kernels.text));
  beforehand.sentence(fmt::format("{}: training {} step{} again", info.name,
                                  steps < 0 ? history->steps().size() : steps, steps == 1 ? "" : "s"));
  print_report(beforehand);
  std::fflush(stdout);
  std::int64_t reported = 0;
  Reproduction result = reproduce(recording.runs().front(), *history, steps, [&](std::int64_t done, std::int64_t all) {
    if (done * 10 / all == reported) return true;
    reported = done * 10 / all;
    print_to(stderr, "  {} of {} steps\n", done, all);
    return true;
  });
  Report report;
  report.lines(result.text());
  print_report(report);
  return result;
}

void reproduce_run(const ReproduceOptions& options) {
  const RecordingReader recording(options.path);
  print_missing(recording);
  if (recording.runs().empty()) throw std::runtime_error(options.path + ": there is no run in it");
  bool found = false, all_equal = true;
  for (const RunInfo& info : recording.runs()) {
    if (!options.run.empty() && info.name != options.run) continue;
    // A process can use the kernels of only one run; it uses those of the first.
    const KernelCheck kernels = found ? check_kernels(info.kernels) : use_recorded_kernels(info.kernels);
    found = true;
    all_equal &= reproduce_one(recording, info, kernels, options.steps).differs_at < 0;
  }
  if (!found)
    throw std::runtime_error(fmt::format("--run: there is no run {} in {}, there are {}", options.run, options.path,
                                         joined(recording.runs(), ", ", &RunInfo::name)));
  if (!all_equal) throw ExitStatus{kStatusDiffers};
}

}  // namespace

void add_reproduce_command(CLI::App& app) {
  auto options = std::make_shared<ReproduceOptions>();
  Command command(app, "reproduce", "Train a recorded run again and check that its losses are the same to the bit");
  command.option("RECORDING", options->path, "The .moescope file").required();
  command.option("--run", options->run, "Only the run of this name (default: every run)");
  command.option("--steps", options->steps, "Only this many of the first steps")
      .range(std::int64_t{1}, std::int64_t{1000000000000});
  command.runs([options] { reproduce_run(*options); });
}

}  // namespace moescope
