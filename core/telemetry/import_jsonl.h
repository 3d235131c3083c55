// Training logs of other programs: JSON lines as a training script writes them, one line a step.
//
// Understood of a step's line (L MoE layers, E experts; what is absent stays absent):
//   step                          required
//   loss | ce_loss, grad_norm, lr, tokens_per_s
//   tokens_per_expert             [L][E] counts; from them MaxVio, CV, entropy and dead experts are computed here
//   expert_bias                   [L][E]
//   score_entropy (nats), margin  [L]
//   aux                           [L] without its coefficient; with the settings' aux_coeff it becomes aux_loss
//   domain_expert                 {domain: [E]} slots, of the layer domain_expert_layer (among all layers)
// A line without `step` before the first step holds the settings: run, layers, dense_layers, experts, top_k, seq,
// batch, dim, domains, aux_coeff (or their common other names). MoE layers are the last L of `layers`. NaN and
// Infinity, as Python writes them, are values. A line that cannot be read is counted, its number and the reason kept,
// and skipped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/telemetry/history.h"

namespace moescope {

struct BadLine {
  std::int64_t number = 0;  // from 1
  std::string why;
};

class LogReader {
 public:
  // `source` is what RunInfo::source says: the file.
  explicit LogReader(std::string source, std::size_t array_budget_bytes = std::size_t{512} << 20);
  ~LogReader();
  LogReader(LogReader&&) noexcept;

  void read_line(std::string_view line);     // without its newline; never throws
  std::shared_ptr<History> history() const;  // nullptr before the first step
  std::int64_t lines() const;
  std::int64_t steps() const;
  std::int64_t bad_lines() const;
  static constexpr std::size_t kKeptBadLines = 100;
  const std::vector<BadLine>& first_bad_lines() const;  // at most kKeptBadLines

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct ImportedLog {
  std::shared_ptr<History> history;
  std::int64_t lines = 0, bad_lines = 0;
  std::vector<BadLine> first_bad_lines;
};
// `progress` gets 0..1 and returns false to cancel, which leaves history nullptr. Throws std::runtime_error: the file
// cannot be read, or holds no step (then with what was wrong with the first line).
ImportedLog import_jsonl(const std::string& path, const std::function<bool(double)>& progress = {},
                         std::size_t array_budget_bytes = std::size_t{512} << 20);

}  // namespace moescope
