// Reads router traces of Megatron-LM (--moe-routing-trace-path): router_trace_rankR.jsonl, with the experts of every
// token.
//
// A line is one microbatch of one MoE layer at one step on one rank: {"step", "block": "decoder" or "mtp", "layer",
// "rank", "num_tokens", "topk", "top_indices": [[expert]]}, optionally with "mtp_idx" and "logit_shape" [T, E]. The
// loads of a step and layer are summed over microbatches and ranks. Layers of an MTP block follow the decoder's. The
// number of experts is that of the logits, else the highest chosen expert plus one. A slot of -1 holds no expert. If
// lines give their rank and a rank goes back to an earlier step, only the repeated lines count (restart_rule.h). Layers
// of two pipeline stages cannot be told apart, because each stage counts from 0. Source: NVIDIA/Megatron-LM,
// megatron/core/transformer/moe/router_trace.py.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "core/files/folder_walk.h"
#include "core/files/text/json_line.h"
#include "core/logs/import.h"
#include "core/logs/log_readers.h"
#include "core/logs/restart_rule.h"
#include "core/logs/routing/routed_tokens.h"
#include "core/logs/runs/log_record.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestLine = std::size_t{256} << 20;
constexpr int kMaxTopK = 1024;
constexpr int kMaxRank = 1 << 20;

// A restart of a rank from `step`: on lines before `line`, this step and later ones belong to the abandoned attempt.
struct TraceCut {
  std::int64_t line, step;
};
using TraceCuts = std::map<int, std::vector<TraceCut>>;  // by rank, in the order of lines

class Trace {
 public:
  // `cuts`: the cuts that a first reading of these lines found.
  explicit Trace(const std::string& source = {}, TraceCuts cuts = {}) : tokens_(source), known_cuts_(std::move(cuts)) {
    for (auto& [rank, cuts_of_rank] : known_cuts_)  // each cut gets the lowest step of the cuts from it on
      for (std::size_t i = cuts_of_rank.size(); i-- > 1;)
        cuts_of_rank[i - 1].step = std::min(cuts_of_rank[i - 1].step, cuts_of_rank[i].step);
  }
  void read_line(std::string_view line);  // throws Unreadable
  const EmptySlotCount& empty_slots() const { return empty_slots_; }
  RoutedTokenStatistics& tokens() { return tokens_; }
  const TraceCuts& cuts() const { return cuts_; }
  const std::map<std::int64_t, std::string>& restarts() const { return restarts_; }  // restart_text() by step

 private:
  std::vector<int> row_of(JsonValue row, std::size_t top_k);
  void note_restart(int rank, const RoutedLayer& place, std::int64_t step);
  bool is_given_up(int rank, std::int64_t step) const;

  JsonLines lines_;
  RoutedTokenStatistics tokens_;
  EmptySlotCount empty_slots_;
  std::int64_t line_ = 0;
  TraceCuts known_cuts_, cuts_;
  std::map<int, RestartRule> rules_;  // by rank
  std::map<std::int64_t, std::string> restarts_;
};

void Trace::note_restart(int rank, const RoutedLayer& place, std::int64_t step) {
  const auto restart = rules_[rank].take(fmt::format("{}{}", place.mtp ? "mtp " : "", place.layer), step);
  if (!restart) return;
  cuts_[rank].push_back({line_, restart->step});
  restarts_.emplace(restart->step, restart_text(*restart));
}

bool Trace::is_given_up(int rank, std::int64_t step) const {
  const auto cuts = known_cuts_.find(rank);
  if (cuts == known_cuts_.end()) return false;
  const auto next = std::ranges::upper_bound(cuts->second, line_, {}, &TraceCut::line);
  return next != cuts->second.end() && next->step <= step;
}

std::vector<int> Trace::row_of(JsonValue row, std::size_t top_k) {
  std::vector<int> experts;
  for (const JsonValue item : list_of(row, "top_indices", top_k, "experts"))
    if (const int expert = to_index(item, "top_indices", -1, to_int(kMaxImportedExperts) - 1); expert >= 0)
      experts.push_back(expert);
  return experts;
}

void Trace::read_line(std::string_view line) {
  ++line_;
  const JsonFields json = lines_.parse(line);
  const std::int64_t step = to_count(required(json, "step"), "step", kLastStep);
  const int top_k = to_index(required(json, "topk"), "topk", 1, kMaxTopK);
  const RoutedLayer place = routed_layer(json);
  if (const JsonValue* shape = member(json, {"logit_shape"})) {
    const auto extents = to_counts(*shape, "logit_shape", 2, "extents");
    if (extents[1] > kMaxImportedExperts) throw Unreadable("logit_shape: too many experts");
    tokens_.expect_experts(extents[1]);
  }
  std::vector<std::vector<int>> rows;
  for (const JsonValue row : list_of(required(json, "top_indices"), "top_indices", 0, "tokens"))
    rows.push_back(row_of(row, top_k));
  if (const JsonValue* number = member(json, {"rank"})) {
    const int rank = to_index(*number, "rank", 0, kMaxRank);
    if (is_given_up(rank, step)) return;
    note_restart(rank, place, step);
  }
  tokens_.expect_top_k(top_k);
  for (std::vector<int>& row : rows) {
    empty_slots_.add(top_k, top_k - row.size());
    if (!row.empty()) tokens_.add(step, place, row);
  }
}

}  // namespace

bool is_trace_name(std::string_view file_name) {
  return file_name.starts_with("router_trace_rank") && file_name.ends_with(".jsonl");
}

bool begins_like_trace(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  return line.starts_with('{') && line.find("\"topk\"") != std::string_view::npos &&
         line.find("\"num_tokens\"") != std::string_view::npos;
}

Imported import_trace(const std::string& path, const ImportOptions& options) {
  const std::vector<fs::path> files =
      fs::is_directory(path) ? files_in(path, is_trace_name) : std::vector<fs::path>{path};
  Imported imported;
  Trace trace(path);
  const auto read_line = [&](std::string_view line) { trace.read_line(line); };
  if (!take_lines(files, kLongestLine, read_line, options, imported)) return {};
  const auto restarts = trace.restarts();
  if (!restarts.empty()) {  // loads are sums, so the files are read again without abandoned attempts
    trace = Trace(path, trace.cuts());
    imported = {};
    if (!take_lines(files, kLongestLine, read_line, options, imported)) return {};
  }
  if (trace.tokens().empty()) refuse(path, "holds no routing" + imported.bad.also());
  imported.runs.push_back(trace.tokens().build(info_of_run(path, options), options));
  trace.empty_slots().mark(*imported.runs.back(), options);
  for (const auto& [step, text] : restarts) {
    imported.remarks.push_back(text);
    append_marker(*imported.runs.back(), options, {options.run, step, "event", text});
  }
  imported.routes = trace.tokens().rows();
  remark_shift(options, imported);
  if (options.progress) options.progress(1);
  return imported;
}

}  // namespace moescope
