#include "core/logs/dumps/expert_counts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"

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

AccountRow row_of_counts(const std::string& name, std::int64_t names, Certainty certainty) {
  AccountRow row;
  row.name = row.first = name;
  row.means = "tokens_per_expert";
  row.meaning = "Expert load";
  row.unit = "tokens";
  row.certainty = certainty;
  row.is_shown = row.is_list = true;
  row.names = names;
  return row;
}

void ExpertCounts::add_to(std::uint32_t& sum, double count, const std::string& place) {
  ++values_;
  if (!(count >= lowest_)) lowest_ = count;
  if (!(count <= highest_)) highest_ = count;
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

int ExpertCounts::top_k_of(const RoutedShape& stated, std::vector<std::string>& remarks) const {
  const int top_k = stated.top_k > 0 ? stated.top_k : top_k_;
  if (top_k == 0) {
    remarks.push_back("the number of experts of a token is not in the file: --top-k states it");
    return 0;
  }
  if (top_k > experts_) refuse(source_, fmt::format("top_k is {}, but a layer has {} experts", top_k, experts_));
  if (!sums_are_multiples_of(top_k))
    remarks.push_back(
        fmt::format("the counts of a layer do not add up to a multiple of top_k = {}: were tokens dropped, or is top_k "
                    "another number (--top-k)?",
                    top_k));
  return top_k;
}

bool ExpertCounts::build(RunInfo info, const ImportOptions& options, AccountRow row, Imported& imported) {
  std::vector<std::string> remarks;
  const std::set<int> layers_with_tokens = drop_empty(remarks);
  const bool are_from_1 = !has_expert_0_ && std::max(stated_experts_, options.routed.experts) == experts_ - 1;
  if (are_from_1)
    for (auto& [step, layers] : steps_)
      for (auto& [layer, counts] : layers) counts.erase(counts.begin());
  experts_ = std::max(experts_ - (are_from_1 ? 1 : 0), options.routed.experts);
  info.top_k = top_k_of(options.routed, remarks);
  info.n_experts = experts_;
  info.moe_layers.assign(layers_with_tokens.begin(), layers_with_tokens.end());
  info.n_layers = info.moe_layers.back() + 1;
  std::size_t entries = 0;
  for (const auto& [step, layers] : steps_)
    for (const auto& [layer, counts] : layers) entries += counts.size();
  check_run_size(info, steps_.size(), entries, fmt::format("Its highest layer is {}", info.moe_layers.back()));
  ImportOptions of_run = options;
  of_run.routed = {.experts = options.routed.experts};  // layers without a token are no MoE layers
  ImportedRun run(std::move(info), of_run);
  std::int64_t tokens = 0;
  for (auto& [step, layers] : steps_) {
    TelemetryFrame frame;
    frame.step = step;
    frame.aux_loss = frame.z_loss = kNoValue;
    std::int64_t slots = 0;
    for (auto& [layer, counts] : layers) {
      RouterFrame& router = frame.routers.emplace_back();
      router.layer = layer;
      router.tokens_per_expert = std::move(counts);
      router.tokens_per_expert.resize(experts_);
      slots = std::max(slots, sum_of(router.tokens_per_expert));
    }
    if (run.listed_experts() > run.info().n_experts) slots /= 2;  // the others are sums
    frame.tokens = tokens += slots / std::max(1, run.info().top_k);
    run.add(std::move(frame));
    if (options.progress && run.steps() % kStepsBetweenReports == 0 && !options.progress(0.9)) return false;
  }
  imported.remarks.push_back(counted(run.steps(), "total", "totals") + " of counts of experts, " + grouped(tokens) +
                             (run.info().top_k > 0 ? " tokens" : " assignments"));
  std::ranges::move(remarks, std::back_inserter(imported.remarks));
  row.values = values_;
  row.lowest = lowest_;
  row.highest = highest_;
  row.first_step = run.history()->steps().first;
  row.last_step = run.history()->steps().last;
  ImportAccount account = run.found();
  if (!has_expert_0_ && std::max(stated_experts_, options.routed.experts) == 0)
    imported.remarks.push_back(account.experts.question = from_1_text(experts_ - 1));
  account.rows.push_back(std::move(row));
  if (imported.runs.empty())
    imported.account = std::move(account);
  else
    imported.account.add(std::move(account));
  imported.runs.push_back(run.history());
  return true;
}

}  // namespace moescope
