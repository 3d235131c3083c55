#include "core/findings/load_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "core/files/text/words.h"
#include "core/frame/router_stats.h"

namespace moescope {

namespace {

constexpr float kNamedPartOfFall = 0.05f;  // of the fall of the use: a window with less does not show it yet
constexpr std::int64_t kMinCollapse = 2 * kMeanSteps;  // shorter collapses are not reported after they end

// Two digits, or a whole number: stored shares are not more exact for experts that get almost nothing.
std::string experts_in_use(double number) {
  return number < 9.95 ? decimal(number, 2) : grouped(std::llround(number));
}

}  // namespace

LoadWatch::LoadWatch(int layer, const RunInfo& info, const StepAxis& axis)
    : load_(layer, info, axis), experts_(info.n_experts), imbalance_(info.ranks) {}

void LoadWatch::block(const LoadBlock& block, const LoadSettings& settings) {
  nothing_balances_ = settings.nothing_balances;
  load_.add(block, settings.killed);
  if (!load_.is_new()) return;
  for (const LoadEpisode& silence : experts_.block(block, load_)) past_.push_back(silence);
  if (load_.can_be_judged()) imbalance_.block(load_);
  judge_use(block);
  if (const auto ended = oscillation_.block(block, load_, settings.bias_step)) past_.push_back(*ended);
}

void LoadWatch::pass(StepRange steps, const LoadSettings& settings) {
  nothing_balances_ = settings.nothing_balances;
  load_.pass(steps, settings.killed);
}

double LoadWatch::use_before(int blocks_ago) const {
  const std::size_t back = blocks_ago;
  return back < blocks_.size() ? static_cast<double>(blocks_[blocks_.size() - 1 - back].use) : std::nan("");
}

bool LoadWatch::can_tell_collapse(const RunInfo& info, std::int64_t tokens) {
  const int top_k = std::max(1, info.top_k);
  const double in_use = tokens > 0 ? std::exp(load_entropy_by_chance(tokens, top_k, info.n_experts)) : info.n_experts;
  return in_use - top_k >= kMinToTell;
}

void LoadWatch::judge_use(const LoadBlock& block) {
  double sum = 0, u_ln_u = 0;
  for (const float u : load_.mean()) {
    sum += u;
    if (u > 0) u_ln_u += u * std::log(u);
  }
  effective_ = sum > 0 ? std::exp(std::log(sum) - u_ln_u / sum) : std::nan("");
  const int top_k = load_.top_k();
  const double room = load_.chance().effective - top_k;
  const double use = room >= kMinToTell ? (effective_ - top_k) / room : std::nan("");
  Block& judged = blocks_.emplace_back(Block{static_cast<float>(use), static_cast<float>(effective_), {}});
  const std::size_t n = load_.n_experts();
  for (std::size_t s = 0; s < block.utilisation.size() / n; ++s)
    if (const auto row = block.utilisation.subspan(s * n, n); !std::isnan(row[0]))
      judged.loads.push_back({block.first + static_cast<std::int64_t>(s), std::ranges::max(row)});
  if (blocks_.size() > kCollapsingBlocks + 1) blocks_.pop_front();
  if (load_.can_be_judged() && !std::isnan(use)) judge_collapse(use);
}

void LoadWatch::judge_collapse(double use) {
  const std::int64_t last = load_.last_step();
  if (has_collapsed()) {
    if (use < kCollapseOverUse) return;
    if (load_.lasts(collapsed_, kMinCollapse)) past_.push_back({FindingKind::collapsed, {collapsed_.step, last}});
    collapsed_ = {};
  }
  if (use < kCollapsedUse) {
    load_.follow(true, false, collapsed_);
    return;
  }
  if (!load_.all_loads().lasts(kEarlySteps)) return;
  const double newer_use = use_before(kCollapsingBlocks / 2), before = use_before(kCollapsingBlocks);
  const bool falls = use < kCollapsingUse && use < kCollapsingFall * before && use < newer_use && newer_use < before;
  falling_blocks_ = falls ? falling_blocks_ + 1 : 0;
  if (!falls) {
    collapsing_since_ = -1;  // the fall has ended by itself
  } else if (collapsing_since_ < 0) {
    const std::size_t even_block = last_block_before_fall();
    collapsing_since_ = first_load_of_fall(blocks_[even_block].loads, blocks_[even_block + 1].loads);
    effective_before_ = blocks_[even_block].effective;
  }
}

// Returns the first load whose fullest expert is a third of the way from that of the loads before the fall to the
// highest.
std::int64_t LoadWatch::first_load_of_fall(std::vector<Load> loads, const std::vector<Load>& next) {
  const std::size_t even_loads = (loads.size() + 1) / 2;
  float even = 0;
  for (std::size_t i = 0; i < even_loads; ++i) even += loads[i].fullest / even_loads;
  loads.insert(loads.end(), next.begin(), next.end());
  const float highest = std::ranges::max(loads, {}, &Load::fullest).fullest;
  return std::ranges::find_if(loads, [&](const Load& load) { return load.fullest >= even + (highest - even) / 3; })
      ->step;
}

// The windows of the first blocks end before the fall, so that the oldest window does not date it.
std::size_t LoadWatch::last_block_before_fall() const {
  const float use_at_first = blocks_.front().use;
  const float named_drop = kNamedPartOfFall * (use_at_first - blocks_.back().use);
  std::size_t even_block = 0;
  for (std::size_t block = 1; block + 1 < blocks_.size(); ++block)
    if (use_at_first - blocks_[block].use < named_drop) even_block = block;
  return even_block;
}

void LoadWatch::findings(std::vector<Finding>& out) const {
  if (load_.no_load()) return;
  const auto before = std::ssize(out);
  add_collapse(out);
  experts_.findings(load_, reports_collapse(), out);
  if (!reports_collapse() && experts_.hot_experts(load_).empty()) imbalance_.findings(load_, nothing_balances_, out);
  oscillation_.findings(load_, out);
  add_past(out);
  if (load_.are_totals())
    for (Finding& finding : out | std::views::drop(before)) finding.observation += limits_text(load_.all_loads().loads);
}

void LoadWatch::add_collapse(std::vector<Finding>& out) const {
  const bool collapsed = has_collapsed();
  if (collapsed ? !reports_collapse() : collapsing_since_ < 0 || falling_blocks_ < kFallingBlocks) return;
  Finding finding = load_.finding(collapsed ? FindingKind::collapsed : FindingKind::collapsing,
                                  collapsed ? collapsed_.step : collapsing_since_);
  const int fullest = load_.fullest();
  finding.experts = {fullest};
  finding.title += collapsed ? " has collapsed" : " is collapsing";
  finding.observation =
      fmt::format("The load is as uneven as if {} of {} experts took all tokens (entropy of the load of {} together)",
                  experts_in_use(effective_), load_.living(), window_text(load_.window_loads()));
  const double by_chance = load_.chance().effective;
  if (by_chance < 0.9 * load_.living())
    finding.observation += "; with so few tokens a perfectly balanced router would use " + experts_in_use(by_chance);
  if (!collapsed)
    finding.observation += "; the number was " + experts_in_use(effective_before_) + " before step " +
                           load_.axis().name(collapsing_since_) + " and still falls";
  finding.observation +=
      fmt::format(". MaxVio of the same loads together is {}: expert {} has {} times its fair share.",
                  decimal(load_.fullest_share() - 1), fullest, decimal(load_.fullest_share()));
  finding.meaning =
      "Experts without tokens get no gradient and learn nothing, while the other experts improve and attract more "
      "tokens. The loss may not show it. With expert parallelism all ranks wait for the fullest one.";
  out.push_back(std::move(finding));
}

void LoadWatch::not_yet(std::vector<Finding>& out) const {
  if (load_.no_load()) return;
  experts_.not_yet(load_, out);
  if (!has_collapsed()) imbalance_.not_yet(load_, out);
}

void LoadWatch::add_past(std::vector<Finding>& out) const {
  for (const LoadEpisode& past : past_) {
    Finding& finding = out.emplace_back(load_.finding(past.kind, past.steps.first));
    finding.severity = Severity::note;
    finding.steps = past.steps;
    finding.ongoing = false;
    if (past.kind == FindingKind::dead) {
      experts_.describe(past, load_.axis(), finding);
    } else if (past.kind == FindingKind::oscillating_bias) {
      OscillationWatch::describe(past, load_.axis(), finding);
    } else {
      finding.observation = finding.title + " had collapsed over " + load_.axis().words(past.steps) +
                            "; since then more experts have been in use.";
      finding.title += " had collapsed";
    }
    finding.meaning = "This has ended, but the model was trained in those steps.";
  }
}

}  // namespace moescope
