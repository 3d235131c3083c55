#include "app/cli/train/cli_train_queue.h"

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "app/cli/train/cli_outcomes.h"
#include "app/cli/train/cli_train_stop.h"
#include "app/cli/train/train_report.h"
#include "app/program/kernel_restart.h"
#include "core/io/text_escape.h"
#include "core/training/engine/run_queue.h"

namespace moescope {
namespace {

void refuse_options(const TrainOptions& o, std::size_t runs) {
  const auto refuse = [&](const char* option) {
    throw std::runtime_error(std::string(option) + ": does not go with " + std::to_string(runs) +
                             " runs, which train in groups; up to 5 runs train together");
  };
  check_table_name(o.table);
  if (o.ep > 0) refuse("--ep");
  if (o.serve > 0) refuse("--serve");
  if (!o.jsonl.empty()) refuse("--jsonl");
  if (!o.checkpoint.empty()) refuse("--checkpoint");
  if (o.continues && o.out.empty()) throw std::runtime_error("--continue: needs --out, whose recordings it continues");
}

std::string title_of(std::size_t group, std::size_t groups) {
  return "group " + std::to_string(group + 1) + " of " + std::to_string(groups);
}

// With --continue, reads the finished groups and uses their kernels again.
void take_up(RunQueue& queue) {
  try {
    for (std::size_t g = 0; g < queue.groups().size(); ++g) queue.read_finished(g);
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error(std::string("--continue: ") + problem.what() +
                             "; choose another --out, or give --overwrite in place of --continue");
  }
  if (queue.status().finished > 0) use_recorded_kernels(queue.kernels());
}

void check_outputs_of_groups(TrainOptions o, const std::vector<RunGroup>& groups) {
  o.overwrite |= o.continues;  // an unfinished recording of a group is replaced
  for (const RunGroup& group : groups) {
    o.out = group.recording;
    if (!group.finished) check_outputs(o, group.runs);
  }
}

void name_finished(const std::vector<RunGroup>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].finished)
      std::printf("%s: finished before, %s\n", title_of(g, groups.size()).c_str(),
                  printable(groups[g].recording).c_str());
}

// Work of the groups after this one, in multiples of this group.
double work_behind(const std::vector<RunGroup>& groups, std::size_t group) {
  std::size_t runs = 0;
  for (std::size_t g = group + 1; g < groups.size(); ++g) runs += groups[g].finished ? 0 : groups[g].runs.size();
  return static_cast<double>(runs) / static_cast<double>(groups[group].runs.size());
}

// Keeps the status of a group beyond its report.
class GroupReport : public TrainReport {
 public:
  GroupReport(const TrainOptions& options, Engine& engine, TrainJob job, int& status)
      : TrainReport(options, engine, std::move(job)), status_(status) {}
  void ended(Engine& engine) override {
    TrainReport::ended(engine);
    status_ = status();
  }

 private:
  int& status_;
};

// Prints the outcomes of the groups that finished. Returns the exit status, `status` unless the table cannot be
// written.
int report(const TrainOptions& o, const RunQueue& queue, int status) {
  const std::vector<Outcome> found = group_outcomes(queue.groups());
  std::printf("\n%s", printable_lines(outcomes_report(found)).c_str());
  if (!queue.status().done)
    std::printf("Candidates that wait are trained by the same command%s.\n",
                o.out.empty() ? "" : " with --continue, which keeps the groups that are finished");
  if (!o.table.empty() && !write_table(o.table, found, stdout) && status == 0) status = 1;
  std::fflush(stdout);
  return status;
}

}  // namespace

void train_groups(const TrainOptions& o, const std::vector<RunConfig>& runs) {
  refuse_options(o, runs.size());
  const std::int64_t steps = o.has_steps ? o.steps : runs.front().optimizer.total_steps;
  RunQueue queue(candidate_groups(runs, o.out), steps, o.out);
  if (o.continues) take_up(queue);
  const std::vector<RunGroup> groups = queue.groups();
  check_outputs_of_groups(o, groups);
  name_finished(groups);
  catch_signals(nullptr);
  int status = 0;
  queue.train([&](const QueueStatus&) { return status == 0 && stop_signal() == 0; },
              [&](Engine& engine, std::size_t group) {
                TrainJob job{
                    .end = steps, .group = title_of(group, groups.size()), .later = work_behind(groups, group)};
                return std::make_unique<GroupReport>(o, engine, std::move(job), status);
              });
  const QueueStatus ended = queue.status();
  if (status == 0 && !ended.error.empty()) throw std::runtime_error(ended.error);
  if (status == 0 && stop_signal() != 0) status = 128 + stop_signal();
  if (const int end = report(o, queue, status); end != 0) throw ExitStatus{end};
}

}  // namespace moescope
