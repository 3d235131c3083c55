#include "core/logs/routing/routed_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "core/files/folder_walk.h"
#include "core/frame/specialisation.h"

namespace moescope {

namespace {

// Limit of the number of experts that are kept for the tokens of all layers and steps: 512 MiB.
constexpr std::size_t kMaxKeptExperts = std::size_t{256} << 20;
constexpr std::size_t kBytesOfNode = 64;  // a map node for an expert, or for two experts chosen together
// Tokens whose experts are predicted from the layer before: the limit for all layers and steps, then the largest and
// smallest limit for one layer of a step.
constexpr std::size_t kMaxGuessed = std::size_t{1} << 21, kMaxGuessedAtOnce = 2048, kMinGuessedAtOnce = 16;

// Calls count(i, j) with i <= j for each pair of experts, also of an expert with itself. `experts_K` must be sorted; a
// repeated expert counts once.
template <typename Experts, typename Count>
void visit_pairs(const Experts& experts_K, Count count) {
  for (std::size_t i = 0; i < experts_K.size(); ++i) {
    if (i > 0 && experts_K[i] == experts_K[i - 1]) continue;
    count(experts_K[i], experts_K[i]);
    for (std::size_t j = i + 1; j < experts_K.size(); ++j)
      if (experts_K[j] != experts_K[j - 1]) count(experts_K[i], experts_K[j]);
  }
}

// Returns the symmetric table whose upper triangle is given.
SpecialisationFrame chosen_together(std::vector<std::uint32_t> upper_EE, int experts, int layer) {
  const std::size_t n = experts;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) upper_EE[j * n + i] = upper_EE[i * n + j];
  SpecialisationFrame frame;
  frame.layer = layer;
  frame.experts = experts;
  frame.together_EE = std::move(upper_EE);
  return frame;
}

}  // namespace

std::span<const std::uint16_t> chosen_of(std::span<const std::uint16_t> row_K) {
  return row_K.first(std::ranges::find(row_K, RoutedRows::kNowhere) - row_K.begin());
}

RunInfo info_of_run(const std::string& path, const ImportOptions& options) {
  RunInfo info;
  info.run = options.run;
  const std::filesystem::path plain = plain_path(path);
  info.name = (std::filesystem::is_directory(path) ? plain.filename() : plain.stem()).string();
  info.source = path;
  return info;
}

RoutedLayer routed_layer(const JsonFields& line) {
  const JsonValue *block = member(line, {"block"}), *mtp_idx = member(line, {"mtp_idx"});
  const int layer = to_index(required(line, "layer"), "layer", 0, kLastImportedLayer);
  const bool mtp = block && to_text(*block, "block") == "mtp";
  return {mtp, mtp && mtp_idx ? to_index(*mtp_idx, "mtp_idx", 0, kLastImportedLayer) : layer};
}

void number_layers(std::map<RoutedLayer, int>& numbers) {
  int decoder = 0;
  for (auto& [place, number] : numbers) {  // those of the decoder come first
    number = place.mtp ? decoder + place.layer : place.layer;
    if (!place.mtp) decoder = number + 1;
  }
}

void EmptySlotCount::mark(History& history, const ImportOptions& options) const {
  if (empty_ == 0) return;
  append_marker(history, options,
                {history.info().run, 0, "event",
                 fmt::format("{} of {} slots have no expert and are sent nowhere", empty_, slots_)});
}

void RoutedTokenStatistics::expect_top_k(std::size_t top_k) {
  if (rows_ && steps_.empty()) rows_->top_k = top_k;
}

void RoutedTokenStatistics::expect_experts(int experts) {
  experts_ = std::max(experts_, experts);
}

void RoutedTokenStatistics::add(std::int64_t step, RoutedLayer layer, std::vector<int>& experts_K) {
  Chosen& chosen = steps_[step][layer];
  if (chosen.tokens == 0) load_bytes_ += sizeof(Chosen) + 256;  // includes the nodes of the maps and the later frame
  top_k_ = std::max(top_k_, to_int(experts_K.size()));
  ++chosen.tokens;
  chosen_ += experts_K.size();
  std::ranges::sort(experts_K);
  if (const int highest = experts_K.empty() ? -1 : experts_K.back(); highest >= experts_) {
    experts_ = highest + 1;
    highest_at_ = fmt::format("step {}, layer {}", step, layer.layer);
  }
  if (!keep(step, layer, experts_K)) count(chosen, experts_K);
  if (load_bytes_ > kMaxLoadBytes)
    refuse(source_,
           fmt::format("the loads of {} steps and up to {} experts take more than 1 GiB", steps_.size(), experts_));
}

bool RoutedTokenStatistics::keep(std::int64_t step, RoutedLayer layer, const std::vector<int>& experts_K) {
  if (!rows_) return false;
  kept_slots_ += std::max(experts_K.size(), rows_->top_k);
  if (rows_->top_k == 0) rows_->top_k = experts_K.size();
  const bool fits = experts_K.size() <= rows_->top_k && (experts_K.empty() || experts_K.back() < RoutedRows::kNowhere);
  if (!fits || kept_slots_ > kMaxKeptExperts) {
    count_kept_rows();
    rows_.reset();
    return false;
  }
  auto& row = rows_->steps[step][layer];
  row.insert(row.end(), experts_K.begin(), experts_K.end());
  row.insert(row.end(), rows_->top_k - experts_K.size(), RoutedRows::kNowhere);
  return true;
}

void RoutedTokenStatistics::count_kept_rows() {
  for (const auto& [step, layers] : rows_->steps)
    for (const auto& [layer, rows] : layers)
      for (std::size_t first = 0; first < rows.size(); first += rows_->top_k)
        count(steps_[step][layer], chosen_of(std::span(rows).subspan(first, rows_->top_k)));
}

template <typename Experts>
void RoutedTokenStatistics::count(Chosen& chosen, const Experts& experts_K) {
  const std::size_t before = chosen.load.size() + chosen.together.size();
  for (const int expert : experts_K) ++chosen.load[expert];
  visit_pairs(experts_K, [&](int i, int j) { ++chosen.together[{i, j}]; });
  load_bytes_ += (chosen.load.size() + chosen.together.size() - before) * kBytesOfNode;
}

std::vector<std::uint32_t> RoutedTokenStatistics::load_of(std::int64_t step, RoutedLayer layer) const {
  std::vector<std::uint32_t> load(experts_);
  for (const auto& [expert, slots] : steps_.at(step).at(layer).load) load[expert] += slots;
  if (!rows_) return load;
  for (const std::uint16_t expert : rows_->steps.at(step).at(layer))
    if (expert != RoutedRows::kNowhere) ++load[expert];
  return load;
}

std::vector<FlipFrame> RoutedTokenStatistics::flips_from(const RoutedRows& reference, std::int64_t step,
                                                         const std::map<RoutedLayer, int>& numbers) const {
  std::vector<FlipFrame> flips;
  const auto reference_step = reference.steps.find(step);
  if (!rows_ || reference.top_k != rows_->top_k || reference_step == reference.steps.end()) return flips;
  const std::size_t top_k = rows_->top_k;
  for (const auto& [layer, own_rows] : rows_->steps.at(step)) {
    const auto other = reference_step->second.find(layer);
    if (other == reference_step->second.end() || other->second.size() != own_rows.size()) continue;
    std::size_t flipped = 0, common = 0, chosen = 0;
    std::vector<std::uint16_t> both;
    for (std::size_t first = 0; first < own_rows.size(); first += top_k) {
      const auto a = chosen_of(std::span(other->second).subspan(first, top_k));
      const auto b = chosen_of(std::span(own_rows).subspan(first, top_k));
      both.clear();
      std::ranges::set_intersection(a, b, std::back_inserter(both));
      common += both.size();
      chosen += b.size();
      flipped += both.size() < std::max(a.size(), b.size());
    }
    FlipFrame& frame = flips.emplace_back();
    frame.layer = numbers.at(layer);
    const std::size_t tokens = own_rows.size() / top_k;
    frame.flip_rate = static_cast<float>(flipped / static_cast<double>(tokens));
    frame.overlap = chosen == 0 ? kNoValue : static_cast<float>(common / static_cast<double>(chosen));
  }
  return flips;
}

void RoutedTokenStatistics::add_together(std::int64_t step, RoutedLayer layer,
                                         std::vector<std::uint32_t>& upper_EE) const {
  const std::size_t experts = experts_;
  upper_EE.resize(experts * experts);
  const auto at = [&](int i, int j) -> std::uint32_t& { return upper_EE[i * experts + j]; };
  for (const auto& [pair, tokens] : steps_.at(step).at(layer).together) at(pair.first, pair.second) += tokens;
  if (!rows_) return;
  const std::span<const std::uint16_t> rows = rows_->steps.at(step).at(layer);
  for (std::size_t first = 0; first < rows.size(); first += rows_->top_k)
    visit_pairs(chosen_of(rows.subspan(first, rows_->top_k)), [&](int i, int j) { ++at(i, j); });
}

std::shared_ptr<History> RoutedTokenStatistics::build(RunInfo info, const ImportOptions& options) {
  std::map<RoutedLayer, int> numbers;
  for (const auto& [step, layers] : steps_)
    for (const auto& [place, chosen] : layers) numbers[place];
  number_layers(numbers);
  const std::size_t experts = experts_;
  for (const auto& [place, number] : numbers) info.moe_layers.push_back(number);
  info.n_layers = info.moe_layers.back() + 1;
  info.n_experts = experts_;
  info.top_k = top_k_;
  std::int64_t most_tokens = 0;
  for (const auto& [place, chosen] : steps_.begin()->second) most_tokens = std::max(most_tokens, chosen.tokens);
  info.tokens_per_step = most_tokens;
  check_run_size(info, steps_.size(), chosen_, fmt::format("{} has expert {}", highest_at_, experts_ - 1));
  const bool fits = fits_coactivation(numbers.size(), experts);
  const bool every_step = fits && fits_coactivation(numbers.size() * steps_.size(), experts);
  std::map<RoutedLayer, std::vector<std::uint32_t>> so_far_EE;
  LayerPrediction prediction(
      experts_, top_k_,
      std::clamp(kMaxGuessed / (steps_.size() * numbers.size()), kMinGuessedAtOnce, kMaxGuessedAtOnce));
  ImportedRun run(std::move(info), options);
  for (auto& [step, layers] : steps_) {
    TelemetryFrame frame;
    frame.step = step;
    frame.aux_loss = frame.z_loss = kNoValue;
    const bool last = step == steps_.rbegin()->first;
    const std::vector<std::uint16_t>* before = nullptr;
    for (auto& [place, chosen] : layers) {
      RouterFrame router;
      router.layer = numbers.at(place);
      if (rows_) {
        const std::vector<std::uint16_t>& own_rows = rows_->steps.at(step).at(place);
        if (before) router.predicted_share = prediction.share(*before, own_rows);
        before = &own_rows;
      }
      router.tokens_per_expert = load_of(step, place);
      frame.routers.push_back(std::move(router));
      if (fits) add_together(step, place, so_far_EE[place]);
    }
    if (options.routes) frame.flips = flips_from(*options.routes, step, numbers);
    if (every_step || last) {
      for (auto& [place, sum_EE] : so_far_EE)
        frame.specialisation.push_back(chosen_together(std::move(sum_EE), experts_, numbers.at(place)));
      so_far_EE.clear();
    }
    run.add(std::move(frame));
  }
  return run.history();
}

}  // namespace moescope
