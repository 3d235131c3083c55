#include "core/telemetry/load_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/telemetry/finite_mean.h"
#include "core/telemetry/words.h"

namespace moescope {

namespace {

constexpr std::int64_t kBlock = FindingsScan::kBlock;
constexpr std::int64_t kMeanSteps = kBlock * kMeanBlocks;
constexpr int kLeastRows = 40;      // of 50 steps, to judge an oscillation by
constexpr int kLastingWindows = 2;  // an oscillation is one when it shows twice, and over when it is gone twice
constexpr int kGateWindows = 3;     // 150 steps
constexpr double kGateShare = 0.5;  // who has less of the load is not being pushed up
constexpr std::int64_t kLeastEpisode = 2 * kMeanSteps;

}  // namespace

LoadWatch::LoadWatch(int layer, const RunInfo& info)
    : layer_(layer),
      run_(info.run),
      n_experts_(info.n_experts),
      top_k_(std::max(1, info.top_k)),
      experts_(static_cast<std::size_t>(n_experts_)),
      sums_(static_cast<std::size_t>(n_experts_) * kMeanBlocks),
      mean_(static_cast<std::size_t>(n_experts_), 1.0f),
      window_(static_cast<std::size_t>(n_experts_) * kMeanSteps, std::nanf("")),
      gates_(static_cast<std::size_t>(n_experts_)) {}

void LoadWatch::block(std::int64_t first, std::span<const float> utilisation, std::span<const float> max_vio,
                      std::span<const float> entropy_norm) {
  if (first_step_ < 0) first_step_ = first;
  last_step_ = first + kBlock - 1;
  max_vio_.push_back(static_cast<float>(mean_of_finite(max_vio)));
  const double entropy = mean_of_finite(entropy_norm);
  const double effective = std::pow(static_cast<double>(n_experts_), entropy);
  use_.push_back(static_cast<float>((effective - top_k_) / (n_experts_ - top_k_)));
  mean_max_vio_ = mean_of_finite(std::span(max_vio_).last(std::min<std::size_t>(max_vio_.size(), kMeanBlocks)));
  count_silence(first, utilisation);
  add_to_mean(utilisation);
  ++blocks_;
  if (no_load_) return;
  if (blocks_ >= kMeanBlocks) judge_experts();
  if (n_experts_ - top_k_ >= 2) judge_use(mean_use(0));
  if (completes_window()) judge_swing();
}

// Runs of batches without a token. A step whose load was not recorded neither ends nor begins one.
void LoadWatch::count_silence(std::int64_t first, std::span<const float> utilisation) {
  const auto n = static_cast<std::size_t>(n_experts_);
  for (std::int64_t s = 0; s < kBlock; ++s) {
    const float* row = utilisation.data() + static_cast<std::size_t>(s) * n;
    every_step_ &= n > 0 && !std::isnan(row[0]);
    for (std::size_t e = 0; e < n; ++e) {
      Expert& expert = experts_[e];
      if (row[e] == 0) {
        if (expert.silent_batches++ == 0) expert.silent_since = first + s;
        expert.longest_silence = std::max(expert.longest_silence, expert.silent_batches);
      } else if (row[e] > 0) {
        // A history that was thinned shows a merged row as silent when one of its batches was: nothing to report later.
        const bool whole = first + s - expert.silent_since == expert.silent_batches;
        if (is_dead(expert) && whole) {
          closed_.push_back({FindingKind::dead, {static_cast<int>(e)}, {expert.silent_since, first + s - 1}});
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
  const auto slot = static_cast<std::size_t>(blocks_ % kMeanBlocks);
  float* sums = sums_.data() + slot * n;
  std::fill_n(sums, n, 0.0f);
  rows_[slot] = 0;
  std::copy(utilisation.begin(), utilisation.end(), window_.begin() + static_cast<std::ptrdiff_t>(slot * kBlock * n));
  for (std::size_t s = 0; s < kBlock; ++s) {
    const float* row = utilisation.data() + s * n;
    if (n == 0 || std::isnan(row[0])) continue;
    ++rows_[slot];
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

void LoadWatch::judge_experts() {
  const double hot = std::min(kHotShare, kHotTokens * n_experts_ / top_k_);
  const auto follow = [&](bool begins, bool ends, std::int64_t& since) {
    if (since < 0 && begins) since = last_step_ - kMeanSteps + 1;
    if (since >= 0 && ends) since = -1;
  };
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const auto share = static_cast<double>(mean_[e]);
    follow(share<kStarvedShare, share> kFedShare, experts_[e].starved_since);
    follow(share >= hot, share < kCooled * hot, experts_[e].hot_since);
  }
}

double LoadWatch::mean_use(int blocks_ago) const {
  const std::size_t end = use_.size() - std::min(use_.size(), static_cast<std::size_t>(blocks_ago));
  const std::size_t begin = end - std::min<std::size_t>(end, kMeanBlocks);
  return mean_of_finite(std::span(use_).subspan(begin, end - begin));
}

void LoadWatch::judge_use(double use) {
  if (blocks_ < kMeanBlocks || std::isnan(use)) return;
  if (collapsed_since_ >= 0) {
    if (use < kCollapseOverUse) return;
    if (last_step_ - collapsed_since_ >= kLeastEpisode) {
      closed_.push_back({FindingKind::collapsed, {}, {collapsed_since_, last_step_}});
    }
    collapsed_since_ = -1;
  }
  if (use < kCollapsedUse) {
    collapsed_since_ = last_step_ - kMeanSteps + 1;
    return;
  }
  if (blocks_ < kEarlyBlocks) return;
  const double half = mean_use(kCollapsingBlocks / 2), before = mean_use(kCollapsingBlocks);
  const bool falls = use < kCollapsingUse && use < kCollapsingFall * before && use < half && half < before;
  falling_blocks_ = falls ? falling_blocks_ + 1 : 0;
  if (!falls) {
    collapsing_since_ = -1;  // it came to rest by itself
  } else if (collapsing_since_ < 0) {
    collapsing_since_ = last_step_ - kBlock * kCollapsingBlocks;
    use_before_ = before;
  }
}

// The deepest autocorrelation of the deviations of the window's 50 loads from their means; 0: too few rows.
double LoadWatch::swing(int& lag_of_it) const {
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

void LoadWatch::judge_swing() {
  const double window_vio = static_cast<double>(*std::max_element(mean_.begin(), mean_.end())) - 1;
  const bool uneven_by_turns =
      bias_step_ > kLargeStep && mean_max_vio_ > kSwingMaxVio && window_vio < mean_max_vio_ / 2;
  int lag = 0;
  const double correlation = uneven_by_turns ? swing(lag) : 0;
  const bool swings = correlation < kSwing;
  quiet_windows_ = swings ? 0 : quiet_windows_ + 1;
  if (swings) {
    if (swing_windows_++ == 0) swing_since_ = last_step_ - kMeanSteps + 1;
    swing_ = correlation, swing_lag_ = lag, swing_step_ = bias_step_;
    swing_max_vio_ = mean_max_vio_, swing_window_vio_ = window_vio;
  } else if (quiet_windows_ >= kLastingWindows || swing_windows_ < kLastingWindows) {
    if (swing_windows_ >= kLastingWindows) {
      closed_.push_back({FindingKind::oscillating_bias,
                         {},
                         {swing_since_, last_step_ - kMeanSteps * quiet_windows_},
                         swing_max_vio_});
    }
    swing_windows_ = 0;
  }
}

void LoadWatch::note_bias_step(const RouterFrame& now, const RouterFrame& next) {
  double moved = 0;
  for (std::size_t e = 0; e < now.expert_bias.size(); ++e) {
    moved += std::fabs(static_cast<double>(next.expert_bias[e]) - static_cast<double>(now.expert_bias[e]));
  }
  const auto margin = static_cast<double>(next.margin);
  bias_step_ = margin > 0 ? moved / n_experts_ / margin : 0;
}

void LoadWatch::router(std::int64_t step, const RouterFrame& router, const RouterFrame* next) {
  const auto n = static_cast<std::size_t>(n_experts_);
  bias_step_ = 0;
  if (router.expert_bias.size() != n || n == 0) return;
  if (next && next->expert_bias.size() == n) note_bias_step(router, *next);
  if (router.gate_mass.size() != n || router.tokens_per_expert.size() != n) return;
  double total = 0, gates = 0, bias = 0;
  for (std::size_t e = 0; e < n; ++e) {
    total += router.tokens_per_expert[e];
    gates += static_cast<double>(router.gate_mass[e]);
    bias += static_cast<double>(router.expert_bias[e]) / static_cast<double>(n);
  }
  if (!(total > 0) || !(gates > 0)) return;
  for (std::size_t e = 0; e < n; ++e) {
    const double share = router.tokens_per_expert[e] / total;
    const double weight = share > 0 ? static_cast<double>(router.gate_mass[e]) / gates / share : 1;
    const double over = static_cast<double>(router.expert_bias[e]) - bias;
    const double fair = share * static_cast<double>(n);
    Gate& gate = gates_[e];
    const int before = gate.faint + gate.strong;
    gate.faint = weight < kFaintGate && over > 0 && fair > kGateShare ? gate.faint + 1 : 0;
    gate.strong = weight > kStrongGate && over < 0 && fair < 1 / kGateShare ? gate.strong + 1 : 0;
    if (before == 0) gate.since = step;
    gate.weight = static_cast<float>(weight);
    gate.bias = static_cast<float>(over);
    gate.share = static_cast<float>(fair);
  }
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
  finding.metric = "utilisation";
  finding.title = "Layer " + std::to_string(layer_);
  return finding;
}

void LoadWatch::findings(std::vector<Finding>& out) const {
  if (no_load_) return;
  add_collapse(out);
  add_dead(out);
  add_starved(out);
  add_hot(out);
  add_swing(out);
  add_gate(out);
  add_closed(out);
}

void LoadWatch::add_collapse(std::vector<Finding>& out) const {
  const bool collapsed = collapsed_since_ >= 0;
  if (!collapsed && (collapsing_since_ < 0 || falling_blocks_ < kFallingBlocks)) return;
  Finding finding = make(collapsed ? FindingKind::collapsed : FindingKind::collapsing, Severity::severe,
                         {collapsed ? collapsed_since_ : collapsing_since_, last_step_}, true);
  const auto fullest = std::max_element(mean_.begin(), mean_.end());
  finding.experts = {static_cast<int>(fullest - mean_.begin())};
  const double use = mean_use(0), effective = use * (n_experts_ - top_k_) + top_k_;
  finding.metric = "entropy_norm";
  finding.title += collapsed ? " has collapsed" : " is collapsing";
  finding.saw = "Its load is as uneven as if " + decimal(effective, 3) + " of " + std::to_string(n_experts_) +
                " experts did all the work (entropy of the load, mean of 50 steps)";
  if (!collapsed) {
    const double before = use_before_ * (n_experts_ - top_k_) + top_k_;
    finding.saw += "; it was " + decimal(before, 3) + " at step " + grouped(collapsing_since_) + " and still falls";
  }
  finding.saw += ". MaxVio is " + decimal(mean_max_vio_, 2) + "; the fullest, expert " +
                 std::to_string(finding.experts.front()) + ", has " + decimal(static_cast<double>(*fullest), 2) +
                 " times its share.";
  finding.why =
      "Experts without tokens get no gradient and stop learning, so those that have them get better and take more: "
      "it does not end by itself. The loss hardly shows it; with expert parallelism the full ranks make all others "
      "wait.";
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
  finding.metric = "dead_fraction";
  const bool one = dead.size() == 1;
  finding.title +=
      one ? ": expert " + std::to_string(dead[0]) + " has been dead for " + batches_text(longest.silent_batches)
          : ": " + std::to_string(dead.size()) + " dead experts";
  finding.saw = (one ? "Expert " : "Experts ") + listed(dead) + (one ? " has" : " have") + " not had one token for " +
                batches_text(kDeadBatches) + " and more, expert " + std::to_string(dead[0]) + " for " +
                batches_text(longest.silent_batches) + ", since step " + grouped(longest.silent_since) + ".";
  finding.why = "Without tokens there is no gradient: parameters that are stored, moved and never used.";
  out.push_back(std::move(finding));
}

void LoadWatch::add_starved(std::vector<Finding>& out) const {
  std::vector<int> starved;
  std::int64_t since = last_step_, silence = 0;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const Expert& expert = experts_[e];
    if (is_dead(expert) || expert.starved_since < 0 || last_step_ - expert.starved_since + 1 < kStarvedSteps) continue;
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
                (starved.size() == 1 ? " has" : " have") + " lived on less than " + percent(kStarvedShare) +
                " of the fair share for " + grouped(kStarvedSteps) + " steps or more (the longest for " +
                grouped(last_step_ - since + 1) + "); expert " + std::to_string(starved[0]) +
                (least > 0 ? " on " + decimal(least, 2) + " of it" : " without a token just now") + ". ";
  finding.saw += silence > 0
                     ? "None of them is silent for good: the longest without a token was " + batches_text(silence) + "."
                     : "None of them was ever without a token.";
  finding.why =
      "A hundredth of the tokens is a hundredth of the gradient: it learns next to nothing. A count of dead experts "
      "does not see it.";
  out.push_back(std::move(finding));
}

void LoadWatch::add_hot(std::vector<Finding>& out) const {
  if (layer_has_collapsed()) return;  // says it all
  std::vector<int> hot;
  std::int64_t since = last_step_;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    if (experts_[e].hot_since < 0 || last_step_ - experts_[e].hot_since + 1 < kHotSteps) continue;
    hot.push_back(static_cast<int>(e));
    since = std::min(since, experts_[e].hot_since);
  }
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

void LoadWatch::add_swing(std::vector<Finding>& out) const {
  if (swing_windows_ < kLastingWindows) return;
  Finding finding = make(FindingKind::oscillating_bias, Severity::warning, {swing_since_, last_step_}, true);
  finding.metric = "max_vio_window";
  finding.knobs = {"router.bias_update_rate"};
  finding.title += ": the bias makes the load swing";
  finding.saw = "MaxVio of a batch is " + decimal(swing_max_vio_, 2) + ", of 50 steps together only " +
                decimal(swing_window_vio_, 2) + ": who is too full now is too empty " +
                counted(swing_lag_, "step", "steps") + " later (correlation " + decimal(swing_, 2) +
                "). A step of the bias is " + decimal(swing_step_, 2) + " times the mean score margin.";
  finding.why =
      "The bias overshoots: its step is large against the differences of the scores, so it changes sign over and over "
      "instead of settling. Each batch is as uneven as without balancing, and tokens are sent to experts at random.";
  out.push_back(std::move(finding));
}

void LoadWatch::add_gate(std::vector<Finding>& out) const {
  for (const bool strong : {false, true}) {
    std::vector<int> found;
    std::int64_t since = last_step_;
    for (std::size_t e = 0; e < gates_.size(); ++e) {
      if ((strong ? gates_[e].strong : gates_[e].faint) < kGateWindows) continue;
      found.push_back(static_cast<int>(e));
      since = std::min(since, gates_[e].since);
    }
    if (found.empty()) continue;
    std::ranges::stable_sort(found, {}, [&](int e) {
      const float weight = gates_[static_cast<std::size_t>(e)].weight;
      return strong ? -weight : weight;
    });
    const Gate& worst = gates_[static_cast<std::size_t>(found[0])];
    Finding finding = make(FindingKind::bias_against_gate, Severity::warning, {since, last_step_}, true);
    finding.experts = found;
    finding.metric = "gate_mass";
    finding.knobs = {"router.bias_update_rate", "router.route_norm"};
    finding.title += strong ? ": the bias holds back whom the gate wants" : ": the bias feeds whom the gate ignores";
    finding.saw = "Expert " + std::to_string(found[0]) + " has " + decimal(static_cast<double>(worst.share), 2) +
                  " times its fair share of the tokens at a bias " +
                  decimal(std::fabs(static_cast<double>(worst.bias)), 2) + (strong ? " below" : " above") +
                  " the layer's mean, and the gate weighs its output at " +
                  decimal(static_cast<double>(worst.weight), 2) + " of the average";
    finding.saw += found.size() > 1 ? "; so it is with " + listed(std::span(found).subspan(1)) + "." : ".";
    finding.why = strong ? "The router would use it more, and the even load keeps it from tokens that need it."
                         : "The load looks even, but its work hardly reaches the output: the bias fills seats, the "
                           "router has not learnt to use the expert.";
    out.push_back(std::move(finding));
  }
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
        finding.title += ": the load swung";
        finding.saw = "The load swung about the even one" + when + " (MaxVio of a batch " + decimal(episode.value, 2) +
                      "), and settled.";
        break;
      case FindingKind::dead:
        finding.title += ": " + who + " was dead";
        finding.saw = who + " of this layer had not one token for " + batches_text(kDeadBatches) + " or more" + when +
                      ", and came back.";
        break;
      default:
        break;  // of starved and hot experts only who still is counts
    }
    if (!finding.saw.empty()) finding.saw[0] = static_cast<char>(std::toupper(finding.saw[0]));
    finding.why = "It is over; what the run did at that time explains what follows it.";
    out.push_back(std::move(finding));
  }
}

}  // namespace moescope
