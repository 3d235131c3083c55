// What the regression gate finds: bench_gate [--equal PAIRS] [--seeds N] [--steps N] [--at STEP] [--preset NAME]
//            [--only TEXT]: changes whose name has this text
//            [--perturbed 1]: the runs of a comparison have one seed, and differ by a perturbation in the last place
//
// The twelve exhibits and quiet changes of tests/support/gate_faults.h, put in at a step (those that no run may change:
// from its start), each in as many seeds, against one, two and three good runs: share found, steps from the fault to
// the first step outside the band, and the figure that left first. Then the false alarms: runs without a fault. Prints
// a table in Markdown for docs/regression-gate.md, each row when it is complete, that of the false alarms also after
// every 50 comparisons. Trains on all threads, a run on each.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/program/program_start.h"
#include "core/numerics/threads.h"
#include "tests/benchmarks/bench_measures.h"
#include "tests/support/gate_faults.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxGood = 3;
constexpr const char* kEqualRuns = "equal runs";

struct GateRequest {
  int equal = 200, seeds = 5;
  std::int64_t steps = 300, fault_step = 150;
  std::string preset = "nano", only;
  bool is_perturbed = false;
};

// What was found with 1, 2 and 3 good runs.
struct GateOutcomes {
  std::array<int, kMaxGood> comparisons{}, found{}, early{};  // early: outside before the fault
  std::array<std::vector<double>, kMaxGood> delays;
  std::map<std::string, int> first_figures;  // beside two good runs
};

struct GoodRuns {
  std::once_flag trained;
  std::vector<HistoryPtr> runs;
};

class GateBench {
 public:
  explicit GateBench(GateRequest request) : request_(std::move(request)) {
    if (request_.preset == "nano") {
      faults_ = exhibits_as_faults();
      for (GateFault& fault : quiet_changes()) faults_.push_back(std::move(fault));
      std::erase_if(faults_,
                    [&](const GateFault& fault) { return fault.name.find(request_.only) == std::string::npos; });
    }
    const RunConfig config = load_preset(request_.preset).config;
    faults_.push_back({kEqualRuns, config, config});
  }

  void measure() {
    std::printf("\n%s, %lld steps; faults from step %lld on, (*): from the start\n\n", request_.preset.c_str(),
                static_cast<long long>(request_.steps), static_cast<long long>(request_.fault_step));
    std::printf("| change | found beside 1, 2, 3 good runs | delay in steps, median | figure that leaves first |\n");
    std::printf("|---|---|---|---|\n");
    for (std::size_t fault = 0; fault < faults_.size(); ++fault)
      for (int seed = 0; seed < comparisons_of(fault); ++seed) jobs_.emplace_back(fault, seed);
    outcomes_.resize(faults_.size());
    const int workers = num_threads();
    set_num_threads(1);
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers; ++worker)
      threads.emplace_back([this] {
        for (std::size_t job = next_++; job < jobs_.size(); job = next_++) measure(jobs_[job].first, jobs_[job].second);
      });
  }

 private:
  void measure(std::size_t fault, int seed) {
    const std::vector<HistoryPtr>& good = good_runs(faults_[fault].right, seed);
    const std::int64_t from = is_live(faults_[fault]) && !is_equal(fault) ? request_.fault_step : 0;
    const HistoryPtr run = train_with_fault(faults_[fault], chance(seed, kMaxGood + 1 + fault), request_.steps, from);
    std::vector<GateReport> reports;
    for (std::size_t count = 1; count <= kMaxGood; ++count)
      reports.push_back(judge_gate(run, std::span(good).first(count)));
    const std::lock_guard guard(lock_);
    for (std::size_t count = 1; count <= kMaxGood; ++count) add(reports[count - 1], from, count, outcomes_[fault]);
    const int comparisons = outcomes_[fault].comparisons.front();
    if (comparisons == comparisons_of(fault) || comparisons % 50 == 0) print_row(fault);
  }

  bool is_equal(std::size_t fault) const { return faults_[fault].name == kEqualRuns; }
  int comparisons_of(std::size_t fault) const { return is_equal(fault) ? request_.equal : request_.seeds; }

  GateChance chance(int seed, std::size_t run) const {
    const std::int64_t base = 1000 * static_cast<std::int64_t>(seed) + 100, number = static_cast<std::int64_t>(run);
    return request_.is_perturbed ? GateChance{base, number} : GateChance{base + number, 0};
  }

  // Good runs serve all changes of their settings.
  const std::vector<HistoryPtr>& good_runs(const RunConfig& right, int seed) {
    std::unique_lock guard(lock_);
    GoodRuns& good = good_[std::to_string(seed) + to_toml(right)];
    guard.unlock();
    std::call_once(good.trained, [&] {
      for (std::size_t run = 0; run < kMaxGood; ++run)
        good.runs.push_back(train_with_fault({"", right, right}, chance(seed, run + 1), request_.steps, {}));
    });
    return good.runs;
  }

  static void add(const GateReport& report, std::int64_t from, std::size_t good_runs, GateOutcomes& outcomes) {
    const std::size_t index = good_runs - 1;
    ++outcomes.comparisons[index];
    std::int64_t first_step = INT64_MAX;
    std::size_t first_series = 0;
    for (const GateExit& exit : report.exits)
      for (const StepRange& time : exit.times) {
        if (time.last < from || time.first >= first_step) continue;
        first_step = time.first;
        first_series = exit.series;
      }
    if (!report.exits.empty() && report.exits.front().last_step() < from) ++outcomes.early[index];
    if (first_step == INT64_MAX) return;
    ++outcomes.found[index];
    outcomes.delays[index].push_back(static_cast<double>(std::max<std::int64_t>(0, first_step - from)));
    if (good_runs == 2) ++outcomes.first_figures[figure_text(report.series[first_series].figure)];
  }

  void print_row(std::size_t fault) const {
    const GateOutcomes& outcomes = outcomes_[fault];
    std::string found, delay, figures;
    for (std::size_t i = 0; i < kMaxGood; ++i) {
      found +=
          (i > 0 ? ", " : "") + std::to_string(outcomes.found[i]) + " of " + std::to_string(outcomes.comparisons[i]);
      delay += (i > 0 ? ", " : "") +
               (outcomes.delays[i].empty() ? "–" : std::to_string(std::lround(median(outcomes.delays[i]))));
    }
    std::vector<std::pair<int, std::string>> by_count;
    for (const auto& [figure, count] : outcomes.first_figures) by_count.emplace_back(-count, figure);
    std::ranges::sort(by_count);
    for (std::size_t i = 0; i < std::min<std::size_t>(2, by_count.size()); ++i)
      figures += (i > 0 ? "; " : "") + by_count[i].second;
    const char* mark = !is_live(faults_[fault]) ? " (*)" : "";
    std::printf("| %s%s | %s | %s | %s |\n", faults_[fault].name.c_str(), mark, found.c_str(), delay.c_str(),
                figures.c_str());
    std::fflush(stdout);
  }

  GateRequest request_;
  std::vector<GateFault> faults_;
  std::vector<std::pair<std::size_t, int>> jobs_;  // fault, seed
  std::vector<GateOutcomes> outcomes_;
  std::map<std::string, GoodRuns> good_;  // by settings and seed
  std::atomic<std::size_t> next_ = 0;
  std::mutex lock_;
};

}  // namespace
}  // namespace moescope

int main(int argc, char** argv) {
  using namespace moescope;
  std::printf("%s\n", start_with_fast_kernels(argv).c_str());
  GateRequest request;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i], value = argv[i + 1];
    if (option == "--equal") request.equal = std::atoi(value.c_str());
    if (option == "--seeds") request.seeds = std::atoi(value.c_str());
    if (option == "--steps") request.steps = std::atoll(value.c_str());
    if (option == "--at") request.fault_step = std::atoll(value.c_str());
    if (option == "--preset") request.preset = value;
    if (option == "--only") request.only = value;
    if (option == "--perturbed") request.is_perturbed = value != "0";
  }
  GateBench bench(request);
  bench.measure();
}
