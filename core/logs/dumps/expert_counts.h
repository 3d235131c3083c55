// Collects numbers of tokens by step, layer and expert, as dumps of expert statistics hold them, and builds a run of
// them. A dump is no training log: it has one total or a few, and neither a loss nor settings.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/logs/runs/log_runs.h"

namespace moescope {

class ExpertCounts {
 public:
  ExpertCounts(std::string source, const ImportOptions& options)
      : source_(std::move(source)), options_(options), top_k_(options.routed.top_k) {}  // `source`: for messages

  // Adds counts of the experts 0, 1, ...; those of a step and layer are summed. `place`: the place in the file, for
  // messages. Throws std::runtime_error if a count is not a number of tokens, or if the counts take more than 1 GiB.
  void add(std::int64_t step, int layer, std::span<const double> counts_E, const std::string& place);
  void add_one(std::int64_t step, int layer, int expert, double count, const std::string& place);
  void expect_experts(int experts);  // there are at least so many, even if the last ones have no count
  void set_top_k(int top_k) { top_k_ = options_.routed.top_k > 0 ? options_.routed.top_k : top_k; }
  bool empty() const { return steps_.empty(); }
  std::int64_t highest_sum() const;  // of the counts of a step and layer
  bool sums_are_multiples_of(std::int64_t tokens) const;
  int experts() const { return experts_; }

  // Gives the steps with tokens to a run of log_of_counts(). Layers without a token are dense, and steps without a
  // token were not recorded: both are left out, and a remark says so. `name`: of the counts. Returns false if
  // cancelled. Throws std::runtime_error if there is no token, or if a stated number contradicts the counts.
  bool add_to(RunBuilder& run, RunInfo info, const std::string& name, std::vector<std::string>& remarks);
  // Returns the only run of a file. `so_far`: what was read before of its lines, and remarks.
  Imported build(const std::string& name, Imported so_far);

 private:
  using Layers = std::map<int, std::vector<std::uint32_t>>;  // counts by expert, as many as were added
  std::vector<std::uint32_t>& counts_at(std::int64_t step, int layer, std::size_t experts);
  void add_to(std::uint32_t& sum, double count, const std::string& place);
  std::set<int> drop_empty(std::vector<std::string>& remarks);  // returns the layers with tokens
  void check_top_k(std::vector<std::string>& remarks) const;
  LogRecord record_of(std::int64_t step, const Layers& layers, const std::string& name) const;

  std::string source_;
  const ImportOptions& options_;
  std::map<std::int64_t, Layers> steps_;
  std::size_t bytes_ = 0;
  int experts_ = 0, top_k_ = 0, stated_experts_ = 0;  // top_k_: 0 if neither the user nor the file states it
  bool has_expert_0_ = false;
};

// Returns a log for runs of counts, for which only the number of experts is stated: the other stated numbers say what
// the axes of the file are, and layers without a token are no MoE layers.
LogRuns log_of_counts(const std::string& path, ImportOptions options, const char* unit);

// Returns a stated number of the file, for messages: "'NAME'[3, 0, 5]".
std::string place_text(const std::string& name, std::span<const std::size_t> place);

}  // namespace moescope
