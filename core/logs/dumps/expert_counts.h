// Collects numbers of tokens by step, layer and expert, as dumps of expert statistics hold them, and builds a run of
// them. A dump is no training log: it has one total or a few, and neither a loss nor settings.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

class ExpertCounts {
 public:
  explicit ExpertCounts(std::string source) : source_(std::move(source)) {}  // `source`: the file, for messages

  // Adds counts of the experts 0, 1, ...; those of a step and layer are summed. `place`: the place in the file, for
  // messages. Throws std::runtime_error if a count is not a number of tokens, or if the counts take more than 1 GiB.
  void add(std::int64_t step, int layer, std::span<const double> counts_E, const std::string& place);
  void add_one(std::int64_t step, int layer, int expert, double count, const std::string& place);
  void expect_experts(int experts);  // there are at least so many, even if the last ones have no count
  void set_top_k(int top_k) { top_k_ = top_k; }
  bool empty() const { return steps_.empty(); }
  std::int64_t highest_sum() const;  // of the counts of a step and layer
  bool sums_are_multiples_of(std::int64_t tokens) const;
  int experts() const { return experts_; }

  // Adds a run with a frame for each step with tokens. Layers without a token are dense, and steps without a token were
  // not recorded: both are left out, and a remark says so. options.routed states top_k and the number of experts. `row`
  // describes the counts; its number of values, range and steps are added. Returns false if cancelled. Throws
  // std::runtime_error if there is no token, or if a stated number contradicts the counts.
  bool build(RunInfo info, const ImportOptions& options, AccountRow row, Imported& imported);

 private:
  using Layers = std::map<int, std::vector<std::uint32_t>>;  // counts by expert, as many as were added
  std::vector<std::uint32_t>& counts_at(std::int64_t step, int layer, std::size_t experts);
  void add_to(std::uint32_t& sum, double count, const std::string& place);
  std::set<int> drop_empty(std::vector<std::string>& remarks);  // returns the layers with tokens
  int top_k_of(const RoutedShape& stated, std::vector<std::string>& remarks) const;

  std::string source_;
  std::map<std::int64_t, Layers> steps_;
  std::size_t bytes_ = 0;
  std::int64_t values_ = 0;
  double lowest_ = kNoValue, highest_ = kNoValue;     // of the counts
  int experts_ = 0, top_k_ = 0, stated_experts_ = 0;  // top_k_: 0 if the file does not have it
  bool has_expert_0_ = false;
};

// Returns a row of the account for counts of this name.
AccountRow row_of_counts(const std::string& name, std::int64_t names, Certainty certainty);

// Returns a stated number of the file, for messages: "'NAME'[3, 0, 5]".
std::string place_text(const std::string& name, std::span<const std::size_t> place);

}  // namespace moescope
