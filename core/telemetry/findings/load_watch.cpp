#include "core/telemetry/findings/load_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/telemetry/frame/router_stats.h"
#include "core/telemetry/frame/words.h"
#include "core/telemetry/history/finite_mean.h"

namespace moescope {

namespace {

constexpr std::int64_t kBlock = FindingsScan::kBlock;
constexpr std::int64_t kMeanSteps = kBlock * kMeanBlocks;
constexpr int kLeastRows = 40;      // of 50 steps, to judge an oscillation by
constexpr int kLastingWindows = 2;  // an oscillation is one when it shows twice, and over when it is gone twice
constexpr std::int64_t kLeastEpisode = 2 * kMeanSteps;
constexpr double kLeastToTell = 2;  // experts beyond top_k that chance shows in use, for use to mean something

template <class T>
void push(std::deque<T>& kept, T value, std::size_t most) {
  kept.push_back(value);
  if (kept.size() > most) kept.pop_front();
}

// Rounded down to three significant bits: the expectation by chance hardly changes and need not be recomputed.
std::int64_t rounded_down(double tokens) {
  if (tokens < 16) return static_cast<std::int64_t>(tokens);
  const double step = std::exp2(std::floor(std::log2(tokens)) - 2);
  return static_cast<std::int64_t>(std::floor(tokens / step) * step);
}

}  // namespace

LoadWatch::LoadWatch(int layer, const RunInfo& info)
    : layer_(layer),
      run_(info.run),
      n_experts_(info.n_experts),
      top_k_(std::max(1, info.top_k)),
      tokens_per_step_(info.tokens_per_step),
      living_(info.n_experts),
      experts_(static_cast<std::size_t>(n_experts_)),
      sums_(static_cast<std::size_t>(n_experts_) * kMeanBlocks),
      mean_(static_cast<std::size_t>(n_experts_), 1.0f),
      window_(static_cast<std::size_t>(n_experts_) * kMeanSteps, std::nanf("")) {}

void LoadWatch::block(std::int64_t first, std::span<const float> utilisation, std::span<const float> max_vio,
                      const LoadSettings& settings) {
  if (first_step_ < 0) first_step_ = first;
  last_step_ = first + std::ssize(max_vio) - 1;
  const bool whole = std::ssize(max_vio) == kBlock;
  take_settings(settings);
  push(max_vio_, static_cast<float>(mean_of_finite(max_vio)), kMeanBlocks);
  const std::vector<float> recent(max_vio_.begin(), max_vio_.end());
  mean_max_vio_ = mean_of_finite(recent);
  count_silence(first, utilisation);
  add_to_mean(utilisation);
  ++blocks_;
  if (no_load_) return;
  if (blocks_ >= kMeanBlocks) judge_experts();
  judge_use();
  if (whole && blocks_ % kMeanBlocks == 0) judge_oscillation(settings);
}

void LoadWatch::take_settings(const LoadSettings& settings) {
  nothing_balances_ = settings.nothing_balances;
  killed_.assign(settings.killed.begin(), settings.killed.end());
  living_ = n_experts_ - static_cast<int>(std::ranges::count(killed_, std::uint8_t{1}));
}

// Slots of a step: T K, or where T is not known the least number that can give these shares, which is exact if some
// expert got a single token.
double LoadWatch::slots_of(std::span<const float> row) const {
  if (tokens_per_step_ > 0) return static_cast<double>(tokens_per_step_) * top_k_;
  float least = std::numeric_limits<float>::infinity();
  for (const float u : row)
    if (u > 0) least = std::min(least, u);
  return std::max<double>(top_k_, static_cast<double>(row.size()) / static_cast<double>(least));
}

// Runs of batches without a token. A step whose load was not recorded neither ends nor begins one.
void LoadWatch::count_silence(std::int64_t first, std::span<const float> utilisation) {
  const auto n = static_cast<std::size_t>(n_experts_);
  const std::size_t steps = n ? utilisation.size() / n : 0;
  for (std::size_t s = 0; s < steps; ++s) {
    const std::span<const float> row = utilisation.subspan(s * n, n);
    const auto step = first + static_cast<std::int64_t>(s);
    every_step_ &= !std::isnan(row[0]);
    const double share = std::isnan(row[0]) ? 0 : slots_of(row) / living_;
    for (std::size_t e = 0; e < n; ++e) {
      Expert& expert = experts_[e];
      if (row[e] == 0 && !is_killed(e)) {
        if (expert.silent_batches++ == 0) expert.silent_since = step, expert.missed = 0;
        expert.missed += share;
        expert.longest_silence = std::max(expert.longest_silence, expert.silent_batches);
      } else if (row[e] > 0 || is_killed(e)) {
        // In a thinned history a merged row is silent if one of its batches was, so episodes that are over are not
        // reported there.
        const bool whole = step - expert.silent_since == expert.silent_batches;
        if (is_dead(expert) && whole && row[e] > 0) {
          closed_.push_back({FindingKind::dead, {static_cast<int>(e)}, {expert.silent_since, step - 1}});
        }
        expert.silent_batches = 0;
      }
    }
  }
}

std::string LoadWatch::batches_text(std::int64_t n) const {
  return every_step_ ? counted(n, "step", "steps") : counted(n, "recorded batch", "recorded batches");
}

void LoadWatch::add_to_mean(std::span<const float> utilisation) {
  const auto n = static_cast<std::size_t>(n_experts_);
  if (n == 0) return;
  const auto slot = static_cast<std::size_t>(blocks_ % kMeanBlocks);
  float* sums = sums_.data() + slot * n;
  std::fill_n(sums, n, 0.0f);
  rows_[slot] = 0;
  inverse_slots_[slot] = 0;
  const auto kept = window_.begin() + static_cast<std::ptrdiff_t>(slot * kBlock * n);
  std::fill_n(std::ranges::copy(utilisation, kept).out, kBlock * n - utilisation.size(), std::nanf(""));
  for (std::size_t s = 0; s < utilisation.size() / n; ++s) {
    const std::span<const float> row = utilisation.subspan(s * n, n);
    if (std::isnan(row[0])) continue;
    ++rows_[slot];
    inverse_slots_[slot] += 1 / slots_of(row);
    for (std::size_t e = 0; e < n; ++e) sums[e] += row[e];
  }
  const int rows = std::accumulate(rows_.begin(), rows_.end(), 0);
  if (rows == 0) return;
  no_load_ = false;
  for (std::size_t e = 0; e < n; ++e) {
    float sum = 0;
    for (std::size_t b = 0; b < kMeanBlocks; ++b) sum += sums_[b * n + e];
    mean_[e] = sum / static_cast<float>(rows);
  }
}

// So many tokens have the spread that the mean of the window's loads has: all of them, where batches are of one size.
double LoadWatch::window_tokens() const {
  const int rows = std::accumulate(rows_.begin(), rows_.end(), 0);
  const double inverse = std::accumulate(inverse_slots_.begin(), inverse_slots_.end(), 0.0);
  return inverse > 0 ? static_cast<double>(rows) * rows / inverse / top_k_ : 0;
}

const LoadWatch::Chance& LoadWatch::chance() {
  const std::int64_t tokens = rounded_down(window_tokens());
  if (chance_.tokens != tokens || chance_.experts != living_) {
    chance_ = {tokens, living_, std::exp(load_entropy_by_chance(tokens, top_k_, living_)),
               static_cast<double>(max_vio_noise_floor(tokens, top_k_, living_))};
  }
  return chance_;
}

void LoadWatch::judge_experts() {
  const auto follow = [&](bool begins, bool ends, std::int64_t& since) {
    if (since < 0 && begins) since = std::max(first_step_, last_step_ - kMeanSteps + 1);
    if (since >= 0 && ends) since = -1;
  };
  const double of_living = static_cast<double>(living_) / std::max(1, n_experts_);
  const double by_chance = chance().max_vio;
  const double hot = std::max(std::min(kHotShare, kHotTokens * living_ / top_k_), 1 + 2 * by_chance);
  double fullest = 0;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const double share = static_cast<double>(mean_[e]) * of_living;
    fullest = std::max(fullest, share);
    follow(share < kStarvedShare && !is_killed(e), share > kFedShare || is_killed(e), experts_[e].starved_since);
    follow(share >= hot, share < kCooled * hot, experts_[e].hot_since);
  }
  const double most = static_cast<double>(living_) / top_k_ - 1;
  const double uneven = std::max(std::min(kUnevenVio, most / 2), 2 * by_chance);
  follow(most > 0 && fullest - 1 >= uneven, fullest - 1 < kCooled * uneven, uneven_since_);
}

double LoadWatch::use_before(int blocks_ago) const {
  const auto back = static_cast<std::size_t>(blocks_ago);
  return back < use_.size() ? static_cast<double>(use_[use_.size() - 1 - back]) : std::nan("");
}

void LoadWatch::judge_use() {
  double sum = 0, u_ln_u = 0;
  for (const float u : mean_) {
    sum += static_cast<double>(u);
    if (u > 0) u_ln_u += static_cast<double>(u) * std::log(static_cast<double>(u));
  }
  effective_ = sum > 0 ? std::exp(std::log(sum) - u_ln_u / sum) : std::nan("");
  const double room = chance().effective - top_k_;
  const double use = room >= kLeastToTell ? (effective_ - top_k_) / room : std::nan("");
  push(use_, static_cast<float>(use), kCollapsingBlocks + 1);
  push(effectives_, static_cast<float>(effective_), kCollapsingBlocks + 1);
  if (blocks_ >= kMeanBlocks && !std::isnan(use)) judge_collapse(use);
}

void LoadWatch::judge_collapse(double use) {
  if (collapsed_since_ >= 0) {
    if (use < kCollapseOverUse) return;
    if (last_step_ - collapsed_since_ >= kLeastEpisode) {
      closed_.push_back({FindingKind::collapsed, {}, {collapsed_since_, last_step_}});
    }
    collapsed_since_ = -1;
  }
  if (use < kCollapsedUse) {
    collapsed_since_ = std::max(first_step_, last_step_ - kMeanSteps + 1);
    return;
  }
  if (blocks_ < kEarlyBlocks) return;
  const double half = use_before(kCollapsingBlocks / 2), before = use_before(kCollapsingBlocks);
  const bool falls = use < kCollapsingUse && use < kCollapsingFall * before && use < half && half < before;
  falling_blocks_ = falls ? falling_blocks_ + 1 : 0;
  if (!falls) {
    collapsing_since_ = -1;  // it stopped by itself
  } else if (collapsing_since_ < 0) {
    collapsing_since_ = last_step_ - kBlock * kCollapsingBlocks;
    effective_before_ = static_cast<double>(effectives_.front());
  }
}

// The deepest autocorrelation of the deviations of the window's 50 loads from their means; 0: too few rows.
double LoadWatch::strongest_anticorrelation(int& lag_of_it) const {
  const auto n = static_cast<std::size_t>(n_experts_);
  std::array<double, kLags + 1> products{};
  std::array<int, kLags + 1> pairs{};
  const auto row = [&](std::int64_t s) { return window_.data() + static_cast<std::size_t>(s) * n; };
  for (std::int64_t s = 0; s < kMeanSteps; ++s) {
    if (std::isnan(row(s)[0])) continue;
    for (std::int64_t lag = 0; lag <= std::min<std::int64_t>(kLags, s); ++lag) {
      const float *now = row(s), *then = row(s - lag);
      if (std::isnan(then[0])) continue;
      float sum = 0;
      for (std::size_t e = 0; e < n; ++e) sum += (now[e] - mean_[e]) * (then[e] - mean_[e]);
      products[static_cast<std::size_t>(lag)] += static_cast<double>(sum);
      ++pairs[static_cast<std::size_t>(lag)];
    }
  }
  if (pairs[0] < kLeastRows || products[0] <= 0) return 0;
  double deepest = 0;
  for (int lag = 1; lag <= kLags; ++lag) {
    const auto i = static_cast<std::size_t>(lag);
    if (pairs[i] == 0) continue;
    const double correlation = products[i] / pairs[i] / (products[0] / pairs[0]);
    if (correlation < deepest) deepest = correlation, lag_of_it = lag;
  }
  return deepest;
}

void LoadWatch::judge_oscillation(const LoadSettings& settings) {
  const double window_vio = static_cast<double>(*std::max_element(mean_.begin(), mean_.end())) - 1;
  const bool uneven_by_turns =
      settings.bias_step > kLargeBiasStep && mean_max_vio_ > kOscillatingMaxVio && window_vio < mean_max_vio_ / 2;
  int lag = 0;
  const double correlation = uneven_by_turns ? strongest_anticorrelation(lag) : 0;
  const bool oscillates = correlation < kAnticorrelated;
  quiet_windows_ = oscillates ? 0 : quiet_windows_ + 1;
  if (oscillates) {
    if (oscillation_windows_++ == 0) oscillation_since_ = last_step_ - kMeanSteps + 1;
    anticorrelation_ = correlation, oscillation_lag_ = lag, oscillation_step_ = settings.bias_step,
    oscillation_margin_ = settings.margin;
    oscillation_max_vio_ = mean_max_vio_, oscillation_window_vio_ = window_vio;
  } else if (quiet_windows_ >= kLastingWindows || oscillation_windows_ < kLastingWindows) {
    if (oscillation_windows_ >= kLastingWindows) {
      closed_.push_back({FindingKind::oscillating_bias,
                         {},
                         {oscillation_since_, last_step_ - kMeanSteps * quiet_windows_},
                         oscillation_max_vio_});
    }
    oscillation_windows_ = 0;
  }
}

bool LoadWatch::enough_to_starve(std::int64_t since) const {
  const double per_step = window_tokens() * top_k_ / living_ / static_cast<double>(kMeanSteps);
  return lasts(since, kStarvedSteps) && static_cast<double>(last_step_ - since + 1) * per_step >= kExpected;
}

Finding LoadWatch::make(FindingKind kind, Severity severity, StepRange steps, bool ongoing) const {
  Finding finding;
  finding.kind = kind;
  finding.severity = severity;
  finding.run = run_;
  finding.layers = {layer_};
  finding.steps = steps;
  finding.ongoing = ongoing;
  finding.knobs = {"router.bias_update_rate", "router.aux_coeff"};
  finding.metric = FigureKey("utilisation");
  finding.title = "Layer " + std::to_string(layer_);
  return finding;
}

void LoadWatch::findings(std::vector<Finding>& out) const {
  if (no_load_) return;
  add_collapse(out);
  add_dead(out);
  add_starved(out);
  add_hot(out);
  add_uneven(out);
  add_oscillation(out);
  add_closed(out);
}

void LoadWatch::add_collapse(std::vector<Finding>& out) const {
  const bool collapsed = collapsed_since_ >= 0;
  if (!collapsed && (collapsing_since_ < 0 || falling_blocks_ < kFallingBlocks)) return;
  Finding finding = make(collapsed ? FindingKind::collapsed : FindingKind::collapsing, Severity::severe,
                         {collapsed ? collapsed_since_ : collapsing_since_, last_step_}, true);
  const auto fullest = std::max_element(mean_.begin(), mean_.end());
  finding.experts = {static_cast<int>(fullest - mean_.begin())};
  finding.metric = Metric::entropy_norm;
  finding.title += collapsed ? " has collapsed" : " is collapsing";
  finding.saw = "Its load is as uneven as if " + decimal(effective_, 3) + " of " + std::to_string(living_) +
                " experts did all the work (entropy of the load of 50 steps together)";
  if (chance_.effective < 0.9 * living_)
    finding.saw += "; chance alone would show " + decimal(chance_.effective, 3) + " with as few tokens";
  if (!collapsed)
    finding.saw +=
        "; it was " + decimal(effective_before_, 3) + " at step " + grouped(collapsing_since_) + " and still falls";
  finding.saw += ". MaxVio is " + decimal(mean_max_vio_, 2) + "; the fullest, expert " +
                 std::to_string(finding.experts.front()) + ", has " + decimal(static_cast<double>(*fullest), 2) +
                 " times its share.";
  finding.why =
      "Experts without tokens get no gradient and learn nothing, while those that have them get better and may take "
      "more. The loss need not show it; with expert parallelism the full ranks make all others wait.";
  out.push_back(std::move(finding));
}

void LoadWatch::add_dead(std::vector<Finding>& out) const {
  std::vector<int> dead;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    if (is_dead(experts_[e])) dead.push_back(static_cast<int>(e));
  }
  if (dead.empty()) return;
  std::ranges::stable_sort(dead, {}, [&](int e) { return experts_[static_cast<std::size_t>(e)].silent_since; });
  const Expert& longest = experts_[static_cast<std::size_t>(dead[0])];
  Finding finding = make(FindingKind::dead, Severity::severe, {longest.silent_since, last_step_}, true);
  finding.experts = dead;
  finding.metric = Metric::dead_fraction;
  const bool one = dead.size() == 1;
  finding.title +=
      one ? ": expert " + std::to_string(dead[0]) + " has been dead for " + batches_text(longest.silent_batches)
          : ": " + std::to_string(dead.size()) + " dead experts";
  finding.saw = (one ? "Expert " : "Experts ") + listed(dead) + (one ? " has" : " have") + " not had one token for ";
  finding.saw += one ? "" : batches_text(kDeadBatches) + " and more, expert " + std::to_string(dead[0]) + " for ";
  finding.saw += batches_text(longest.silent_batches) + ", since step " + grouped(longest.silent_since) + ".";
  finding.why = "Without tokens there is no gradient: parameters that are stored and never used.";
  out.push_back(std::move(finding));
}

void LoadWatch::add_starved(std::vector<Finding>& out) const {
  std::vector<int> starved;
  std::int64_t since = last_step_, silence = 0;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const Expert& expert = experts_[e];
    if (is_dead(expert) || !enough_to_starve(expert.starved_since)) continue;
    starved.push_back(static_cast<int>(e));
    since = std::min(since, expert.starved_since);
    silence = std::max(silence, expert.longest_silence);
  }
  if (starved.empty()) return;
  std::ranges::stable_sort(starved, {}, [&](int e) { return mean_[static_cast<std::size_t>(e)]; });
  Finding finding = make(FindingKind::starved, Severity::warning, {since, last_step_}, true);
  finding.experts = starved;
  const auto least = static_cast<double>(mean_[static_cast<std::size_t>(starved[0])]);
  finding.title += ": " + counted(static_cast<std::int64_t>(starved.size()), "starved expert", "starved experts");
  finding.saw = (starved.size() == 1 ? "Expert " : "Experts ") + listed(starved) +
                (starved.size() == 1 ? " has" : " have") + " got less than " + percent(kStarvedShare) +
                " of the fair share for " + grouped(kStarvedSteps) + " steps or more (the longest for " +
                grouped(last_step_ - since + 1) + "); expert " + std::to_string(starved[0]) +
                (least > 0 ? " at " + decimal(least, 2) + " of it" : " without a token just now") + ". ";
  finding.saw += silence > 0
                     ? "None of them is silent for good: the longest without a token was " + batches_text(silence) + "."
                     : "None of them was ever without a token.";
  finding.why =
      "What it learns comes from a hundredth of the text that the others see. A count of dead experts does not show "
      "it.";
  out.push_back(std::move(finding));
}

std::vector<int> LoadWatch::hot_experts() const {
  std::vector<int> hot;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    if (lasts(experts_[e].hot_since, kHotSteps)) hot.push_back(static_cast<int>(e));
  }
  return hot;
}

void LoadWatch::add_hot(std::vector<Finding>& out) const {
  if (layer_has_collapsed()) return;  // the collapse covers it
  std::vector<int> hot = hot_experts();
  std::int64_t since = last_step_;
  for (const int e : hot) since = std::min(since, experts_[static_cast<std::size_t>(e)].hot_since);
  if (hot.empty()) return;
  std::ranges::stable_sort(hot, std::greater{}, [&](int e) { return mean_[static_cast<std::size_t>(e)]; });
  const auto share = static_cast<double>(mean_[static_cast<std::size_t>(hot[0])]);
  Finding finding = make(FindingKind::hot, Severity::warning, {since, last_step_}, true);
  finding.experts = hot;
  finding.title += hot.size() == 1 ? ": expert " + std::to_string(hot[0]) + " is hot"
                                   : ": " + std::to_string(hot.size()) + " hot experts";
  finding.saw = "Expert " + std::to_string(hot[0]) + " has " + decimal(share, 2) + " times its fair share, " +
                percent(share * top_k_ / n_experts_) + " of all tokens, and has been this full for " +
                grouped(last_step_ - since + 1) + " steps";
  finding.saw += hot.size() > 1 ? "; so are " + listed(std::span(hot).subspan(1)) + "." : ".";
  finding.why = "With expert parallelism the rank that holds it sets the pace of all others.";
  out.push_back(std::move(finding));
}

void LoadWatch::add_uneven(std::vector<Finding>& out) const {
  if (layer_has_collapsed() || !hot_experts().empty()) return;
  if (!lasts(uneven_since_, nothing_balances_ ? kUnevenStepsAlone : kUnevenSteps)) return;
  Finding finding = make(FindingKind::uneven, Severity::warning, {uneven_since_, last_step_}, true);
  const auto fullest = std::max_element(mean_.begin(), mean_.end());
  finding.experts = {static_cast<int>(fullest - mean_.begin())};
  finding.metric = Metric::max_vio_window;
  finding.title += " stays uneven";
  const auto share = static_cast<double>(*fullest);
  finding.saw = "The MaxVio of 50 steps together is " + decimal(share * living_ / n_experts_ - 1, 2) +
                " and has been high for " + grouped(last_step_ - uneven_since_ + 1) + " steps; the fullest just now, " +
                "expert " + std::to_string(finding.experts.front()) + ", has " + decimal(share, 2) +
                " times its fair share.";
  if (nothing_balances_) finding.saw += " Nothing balances: there is neither a bias rate nor an auxiliary loss.";
  finding.why =
      "This is not noise of single batches, which averages out over 50. With expert parallelism the rank that holds "
      "the fullest expert makes all others wait.";
  out.push_back(std::move(finding));
}

void LoadWatch::add_oscillation(std::vector<Finding>& out) const {
  if (oscillation_windows_ < kLastingWindows) return;
  Finding finding = make(FindingKind::oscillating_bias, Severity::warning, {oscillation_since_, last_step_}, true);
  finding.metric = Metric::max_vio_window;
  finding.knobs = {"router.bias_update_rate"};
  finding.title += ": the bias makes the load oscillate";
  finding.saw = "MaxVio of a batch is " + decimal(oscillation_max_vio_, 2) + ", of 50 steps together only " +
                decimal(oscillation_window_vio_, 2) + ": an expert that is too full now is too empty " +
                counted(oscillation_lag_, "step", "steps") + " later (correlation " + decimal(anticorrelation_, 2) +
                "). A step of the bias is " + decimal(oscillation_step_, 2) +
                " times the mean score margin, which is " + decimal(oscillation_margin_, 2) + ".";
  finding.why =
      "The bias overshoots: its step is large compared with the differences of the scores, so that each step reverses "
      "the imbalance instead of reducing it. Batches stay uneven, and where a token goes depends on the step.";
  out.push_back(std::move(finding));
}

void LoadWatch::add_closed(std::vector<Finding>& out) const {
  for (const Episode& episode : closed_) {
    Finding finding = make(episode.kind, Severity::note, episode.steps, false);
    finding.experts = episode.experts;
    const std::string who = episode.experts.size() == 1 ? "expert " + listed(episode.experts)
                                                        : counted(std::ssize(episode.experts), "expert", "experts") +
                                                              " (" + listed(episode.experts) + ")";
    const std::string when = " over " + steps_in_words(episode.steps.first, episode.steps.last);
    const std::string where = "Layer " + std::to_string(layer_);
    switch (episode.kind) {
      case FindingKind::collapsed:
        finding.title += " had collapsed";
        finding.saw = where + " had collapsed" + when + "; more experts have been in use since then.";
        break;
      case FindingKind::oscillating_bias:
        finding.title += ": the load oscillated";
        finding.saw = "The load oscillated about the even one" + when + " (MaxVio of a batch " +
                      decimal(episode.value, 2) + "), and then settled.";
        break;
      case FindingKind::dead:
        finding.title += ": " + who + " was dead";
        finding.saw = who + " of this layer had not one token for " + batches_text(kDeadBatches) + " or more" + when +
                      ", and came back.";
        break;
      default:
        break;  // starved and hot experts only count while they are
    }
    if (!finding.saw.empty()) finding.saw[0] = static_cast<char>(std::toupper(finding.saw[0]));
    finding.why = "It is over, but the steps meanwhile were trained that way.";
    out.push_back(std::move(finding));
  }
}

}  // namespace moescope
