#include "app/cli/cli_replay.h"

#include <cstdio>

#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/config/setup_link.h"
#include "core/io/text_escape.h"
#include "core/io/whole_file.h"
#include "core/logs/log_settings.h"
#include "core/logs/open_runs.h"
#include "core/replay/replay_page.h"
#include "core/training/engine/lock_step.h"

namespace moescope {
namespace {

using HistoryPointer = std::shared_ptr<const History>;

// The part of a run in which nothing but chance makes it differ from the first: up to `until`.
HistoryPointer part_until(const HistoryPointer& run, std::int64_t until) {
  return until < run->steps().last ? beginning_of(*run, until) : run;
}

ReplayRun trained_run(const History& first, const HistoryPointer& run) {
  const auto of_first = first.settings_at_start(), of_run = run->settings_at_start();
  const RunConfig &a = *of_first->config(), &b = *of_run->config();
  ReplayRun replay{run, same_start(a, b)};
  if (is_noise_twin(a, b)) replay.twin = part_until(run, same_changes_until(first, *run));
  return replay;
}

ReplayRun logged_run(const History& first, const HistoryPointer& run) {
  const LogSettings a = first.settings_at_start()->log(), b = run->settings_at_start()->log();
  ReplayRun replay{run};
  for (const LogDifference& found : difference(a, b)) replay.same_start &= found.key != "seed";
  if (const auto until = same_settings_until(a, b)) replay.twin = part_until(run, *until);
  return replay;
}

// Of runs whose settings are known; empty: not all are.
std::string setup_of(const OpenedRuns& opened) {
  SharedSetup setup;
  for (const auto& history : opened.histories) {
    const auto settings = history->settings_at_start();
    if (!settings->config()) return {};
    setup.configs.push_back(*settings->config());
  }
  return setup_link(setup);
}

}  // namespace

void export_replay(const std::vector<std::string>& files, const std::string& out) {
  const OpenedRuns opened = open_runs(files, ImportOptions{}, kMaxRuns);
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
  const std::string page = replay_page(runs);
  write_whole_file(out, page);
  std::printf("%s: %zu runs, %.1f MB\n", printable(out).c_str(), runs.size(), 1e-6 * static_cast<double>(page.size()));
}

}  // namespace moescope
