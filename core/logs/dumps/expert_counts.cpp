#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/dumps/dump_readers.h"
#include "core/logs/routing/routed_tokens.h"

namespace moescope {

namespace {

constexpr std::size_t kMaxCountBytes = std::size_t{1} << 30;
constexpr std::size_t kBytesOfLayer = 80;  // of a layer of a step besides its counts
constexpr std::int64_t kStepsBetweenReports = 64;

}  // namespace

std::string place_text(const std::string& name, std::span<const std::size_t> place) {
  std::string text = "'" + printable(name) + "'";
  if (!place.empty()) text += "[" + joined(place, ", ", [](std::size_t at) { return std::to_string(at); }) + "]";
  return text;
}

std::vector<std::uint32_t>& ExpertCounts::counts_at(std::int64_t step, int layer, std::size_t experts) {
  if (layer < 0 || layer > kLastImportedLayer) refuse(source_, fmt::format("layer {} is out of range", layer));
  if (experts > kMaxImportedExperts) refuse(source_, fmt::format("{} experts are more than can be shown", experts));
  Layers& layers = steps_[step];
  const auto [found, is_new] = layers.try_emplace(layer);
  const std::size_t before = found->second.size();
  if (before < experts) found->second.resize(experts);
  bytes_ += (is_new ? kBytesOfLayer : 0) + (found->second.size() - before) * sizeof(std::uint32_t);
  if (bytes_ > kMaxCountBytes) refuse(source_, "its counts take more than 1 GiB");
  experts_ = std::max(experts_, to_int(experts));
  return found->second;
}

void ExpertCounts::add_to(std::uint32_t& sum, double count, const std::string& place) {
  const double total = sum + count;
  if (count >= 0 && count == std::floor(count) && total <= std::numeric_limits<std::uint32_t>::max()) {
    sum = static_cast<std::uint32_t>(total);
    return;
  }
  const char* reason = ", expected a number of tokens";
  if (count > 0 && count < 1) reason = ": a share does not tell of how many tokens; save the counts";
  if (std::isfinite(count) && count >= 0 && count == std::floor(count))
    reason = ": more than 4,294,967,295 tokens of an expert cannot be shown";
  refuse(source_, place + " is " + shortest(count) + reason);
}

void ExpertCounts::add(std::int64_t step, int layer, std::span<const double> counts_E, const std::string& place) {
  std::vector<std::uint32_t>& counts = counts_at(step, layer, counts_E.size());
  has_expert_0_ = true;
  for (std::size_t e = 0; e < counts_E.size(); ++e)
    add_to(counts[e], counts_E[e], fmt::format("{}, expert {},", place, e));
}

void ExpertCounts::add_one(std::int64_t step, int layer, int expert, double count, const std::string& place) {
  const std::size_t e = expert;
  has_expert_0_ = has_expert_0_ || expert == 0;
  add_to(counts_at(step, layer, e + 1)[e], count, place);
}

void ExpertCounts::expect_experts(int experts) {
  stated_experts_ = experts;
  experts_ = std::max(experts_, experts);
}

std::int64_t ExpertCounts::highest_sum() const {
  std::int64_t highest = 0;
  for (const auto& [step, layers] : steps_)
    for (const auto& [layer, counts] : layers) highest = std::max(highest, sum_of(counts));
  return highest;
}

bool ExpertCounts::sums_are_multiples_of(std::int64_t tokens) const {
  for (const auto& [step, layers] : steps_)
    for (const auto& [layer, counts] : layers)
      if (sum_of(counts) % tokens != 0) return false;
  return true;
}

std::set<int> ExpertCounts::drop_empty(std::vector<std::string>& remarks) {
  std::set<int> all, with_tokens;
  for (const auto& [step, layers] : steps_)
    for (const auto& [layer, counts] : layers) {
      all.insert(layer);
      if (sum_of(counts) > 0) with_tokens.insert(layer);
    }
  if (with_tokens.empty()) refuse(source_, "all counts of experts are 0");
  std::vector<int> dense;
  std::ranges::set_difference(all, with_tokens, std::back_inserter(dense));
  for (auto& [step, layers] : steps_)
    std::erase_if(layers, [&](const auto& layer) { return sum_of(layer.second) == 0; });
  const std::size_t unused = std::erase_if(steps_, [](const auto& step) { return step.second.empty(); });
  if (!dense.empty())
    remarks.push_back("left out as dense, because no expert has a token: layer" +
                      std::string(dense.size() > 1 ? "s " : " ") + listed(dense));
  if (unused > 0) remarks.push_back(counted(unused, "step", "steps") + " without a token left out");
  return with_tokens;
}

void ExpertCounts::check_top_k(std::vector<std::string>& remarks) const {
  if (top_k_ == 0)
    remarks.push_back("the number of experts of a token is not in the file: --top-k states it");
  else if (top_k_ > experts_)
    refuse(source_, fmt::format("top_k is {}, but a layer has {} experts", top_k_, experts_));
  else if (!sums_are_multiples_of(top_k_))
    remarks.push_back(
        fmt::format("the counts of a layer do not add up to a multiple of top_k = {}: were tokens dropped, or is top_k "
                    "another number (--top-k)?",
                    top_k_));
}

// If no count is of expert 0, it has no value, about which the run asks.
LogRecord ExpertCounts::record_of(std::int64_t step, const Layers& layers, const std::string& name) const {
  LogRecord record;
  record.step = step;
  for (const auto& [layer, counts] : layers) {
    NamedValue& loads = record.add(name);
    loads.is_list = true;
    loads.means = "tokens_per_expert";
    loads.layer = layer;
    loads.numbers.assign(counts.begin(), counts.end());
    loads.numbers.resize(experts_);
    loads.leaves_out_zeros = loads.has_all_experts = !has_expert_0_;
    if (!has_expert_0_) loads.numbers[0] = kNoValue;
  }
  return record;
}

bool ExpertCounts::add_to(RunBuilder& run, RunInfo info, const std::string& name, std::vector<std::string>& remarks) {
  std::vector<std::string> on_counts;
  const std::set<int> layers_with_tokens = drop_empty(on_counts);
  const int stated = options_.routed.experts;
  experts_ = std::max(experts_, stated);
  check_top_k(on_counts);
  info.top_k = top_k_;
  info.n_experts = experts_;
  info.moe_layers.assign(layers_with_tokens.begin(), layers_with_tokens.end());
  info.n_layers = info.moe_layers.back() + 1;
  std::size_t entries = 0;
  for (const auto& [step, layers] : steps_)
    for (const auto& [layer, counts] : layers) entries += counts.size();
  check_run_size(info, steps_.size(), entries, fmt::format("Its highest layer is {}", info.moe_layers.back()));
  info.n_experts = std::max(stated_experts_, stated);  // the run finds out whether they are numbered from 1
  run.stated.info = std::move(info);
  std::int64_t tokens = 0;
  for (const auto& [step, layers] : steps_) {
    LogRecord record = record_of(step, layers, name);
    std::int64_t slots = 0;
    for (const auto& [layer, counts] : layers) slots = std::max(slots, sum_of(counts));
    if (stated > 0 && experts_ > stated && has_expert_0_) slots /= 2;  // the others are sums
    record.own_frame.emplace().tokens = tokens += slots / std::max(1, top_k_);
    record.own_frame->aux_loss = record.own_frame->z_loss = kNoValue;
    run.take(record);
    if (options_.progress && run.steps() % kStepsBetweenReports == 0 && !options_.progress(0.9)) return false;
  }
  run.stated.info = {};  // so that the account says where the numbers come from
  run.stated.info.n_experts = stated_experts_;
  remarks.push_back(counted(run.steps(), "total", "totals") + " of counts of experts, " + grouped(tokens) +
                    (top_k_ > 0 ? " tokens" : " assignments"));
  std::ranges::move(on_counts, std::back_inserter(remarks));
  return true;
}

Imported ExpertCounts::build(const std::string& name, Imported so_far) {
  LogRuns runs = log_of_counts(source_, options_, so_far.bad.unit());
  runs.context().bad = std::move(so_far.bad);
  if (!add_to(runs.run(""), info_of_run(source_, options_), name, so_far.remarks)) return {};
  Imported imported = runs.finish(so_far.lines);
  imported.remarks.insert(imported.remarks.begin(), so_far.remarks.begin(), so_far.remarks.end());
  return imported;
}

LogRuns log_of_counts(const std::string& path, ImportOptions options, const char* unit) {
  options.routed = {.experts = options.routed.experts};
  options.only.clear();
  return LogRuns(path, std::move(options), false, unit);
}

}  // namespace moescope
