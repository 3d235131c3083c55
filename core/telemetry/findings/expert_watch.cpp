#include "core/telemetry/findings/expert_watch.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/telemetry/frame/words.h"

namespace moescope {

namespace {

bool long_enough_to_starve(std::int64_t since, const RecentLoad& load) {
  const double per_step = load.tokens() * load.top_k() / load.living() / static_cast<double>(kMeanSteps);
  return load.lasts(since, kStarvedSteps) && static_cast<double>(load.last_step() - since + 1) * per_step >= kExpected;
}

}  // namespace

std::vector<LoadEpisode> ExpertWatch::block(std::int64_t first, std::span<const float> utilisation,
                                            const RecentLoad& load) {
  std::vector<LoadEpisode> over = count_silence(first, utilisation, load);
  if (!load.no_load() && load.blocks() >= kMeanBlocks) follow_means(load);
  return over;
}

// Runs of batches without a token. A step whose load was not recorded neither ends nor begins one.
std::vector<LoadEpisode> ExpertWatch::count_silence(std::int64_t first, std::span<const float> utilisation,
                                                    const RecentLoad& load) {
  std::vector<LoadEpisode> over;
  const std::size_t n = experts_.size();
  for (std::size_t s = 0; s < utilisation.size() / n; ++s) {
    const std::span<const float> row = utilisation.subspan(s * n, n);
    const auto step = first + static_cast<std::int64_t>(s);
    every_step_ &= !std::isnan(row[0]);
    const double share = std::isnan(row[0]) ? 0 : load.slots(row) / load.living();
    for (std::size_t e = 0; e < n; ++e) {
      Expert& expert = experts_[e];
      if (row[e] == 0 && !load.is_killed(e)) {
        if (expert.silent_batches++ == 0) expert.silent_since = step, expert.missed = 0;
        expert.missed += share;
        expert.longest_silence = std::max(expert.longest_silence, expert.silent_batches);
      } else if (row[e] > 0 || load.is_killed(e)) {
        // In a thinned history a merged row is silent if one of its batches was, so episodes that are over are not
        // reported there.
        const bool whole = step - expert.silent_since == expert.silent_batches;
        if (expert.is_dead() && whole && row[e] > 0) {
          over.push_back({FindingKind::dead, {expert.silent_since, step - 1}, static_cast<int>(e)});
        }
        expert.silent_batches = 0;
      }
    }
  }
  return over;
}

void ExpertWatch::follow_means(const RecentLoad& load) {
  const double most = std::min(kHotShare, kHotTokens * load.living() / load.top_k());
  const double hot = std::max(most, 1 + 2 * load.chance().max_vio);
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const double share = load.share(e);
    const bool killed = load.is_killed(e);
    load.follow(share < kStarvedShare && !killed, share > kFedShare || killed, experts_[e].starved_since);
    load.follow(share >= hot, share < kCooled * hot, experts_[e].hot_since);
  }
}

std::vector<int> ExpertWatch::hot_experts(const RecentLoad& load) const {
  std::vector<int> hot;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    if (load.lasts(experts_[e].hot_since, kHotSteps)) hot.push_back(static_cast<int>(e));
  }
  return hot;
}

std::string ExpertWatch::batches_text(std::int64_t n) const {
  return every_step_ ? counted(n, "step", "steps") : counted(n, "recorded batch", "recorded batches");
}

void ExpertWatch::findings(const RecentLoad& load, bool collapsed, std::vector<Finding>& out) const {
  add_dead(load, out);
  add_starved(load, out);
  if (!collapsed) add_hot(load, out);
}

void ExpertWatch::add_dead(const RecentLoad& load, std::vector<Finding>& out) const {
  std::vector<int> dead;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    if (experts_[e].is_dead()) dead.push_back(static_cast<int>(e));
  }
  if (dead.empty()) return;
  std::ranges::stable_sort(dead, {}, [&](int e) { return experts_[static_cast<std::size_t>(e)].silent_since; });
  const Expert& longest = experts_[static_cast<std::size_t>(dead[0])];
  Finding finding = load.finding(FindingKind::dead, Severity::severe, {longest.silent_since, load.last_step()}, true);
  finding.experts = dead;
  finding.metric = Metric::dead_fraction;
  const bool one = dead.size() == 1;
  finding.title +=
      one ? ": expert " + std::to_string(dead[0]) + " has been dead for " + batches_text(longest.silent_batches)
          : ": " + std::to_string(dead.size()) + " dead experts";
  finding.saw = (one ? "Expert " : "Experts ") + listed(dead) + (one ? " has" : " have") + " not had one token for ";
  finding.saw += one ? "" : batches_text(kDeadBatches) + " and more, expert " + std::to_string(dead[0]) + " for ";
  finding.saw += batches_text(longest.silent_batches) + ", since step " + load.axis().name(longest.silent_since) + ".";
  finding.why = "Without tokens there is no gradient: parameters that are stored and never used.";
  out.push_back(std::move(finding));
}

void ExpertWatch::add_starved(const RecentLoad& load, std::vector<Finding>& out) const {
  std::vector<int> starved;
  std::int64_t since = load.last_step(), silence = 0;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const Expert& expert = experts_[e];
    if (expert.is_dead() || !long_enough_to_starve(expert.starved_since, load)) continue;
    starved.push_back(static_cast<int>(e));
    since = std::min(since, expert.starved_since);
    silence = std::max(silence, expert.longest_silence);
  }
  if (starved.empty()) return;
  std::ranges::stable_sort(starved, {}, [&](int e) { return load.mean_of(e); });
  Finding finding = load.finding(FindingKind::starved, Severity::warning, {since, load.last_step()}, true);
  finding.experts = starved;
  const double least = load.mean_of(starved[0]);
  finding.title += ": " + counted(static_cast<std::int64_t>(starved.size()), "starved expert", "starved experts");
  finding.saw = (starved.size() == 1 ? "Expert " : "Experts ") + listed(starved) +
                (starved.size() == 1 ? " has" : " have") + " got less than " + percent(kStarvedShare) +
                " of the fair share for " + grouped(kStarvedSteps) + " steps or more (the longest for " +
                grouped(load.last_step() - since + 1) + "); expert " + std::to_string(starved[0]) +
                (least > 0 ? " at " + decimal(least, 2) + " of it" : " without a token just now") + ". ";
  finding.saw += silence > 0
                     ? "None of them is silent for good: the longest without a token was " + batches_text(silence) + "."
                     : "None of them was ever without a token.";
  finding.why =
      "What it learns comes from a hundredth of the text that the others see. A count of dead experts does not show "
      "it.";
  out.push_back(std::move(finding));
}

void ExpertWatch::add_hot(const RecentLoad& load, std::vector<Finding>& out) const {
  std::vector<int> hot = hot_experts(load);
  if (hot.empty()) return;
  std::int64_t since = load.last_step();
  for (const int e : hot) since = std::min(since, experts_[static_cast<std::size_t>(e)].hot_since);
  std::ranges::stable_sort(hot, std::greater{}, [&](int e) { return load.mean_of(e); });
  const double share = load.mean_of(hot[0]);
  Finding finding = load.finding(FindingKind::hot, Severity::warning, {since, load.last_step()}, true);
  finding.experts = hot;
  finding.title += hot.size() == 1 ? ": expert " + std::to_string(hot[0]) + " is hot"
                                   : ": " + std::to_string(hot.size()) + " hot experts";
  finding.saw = "Expert " + std::to_string(hot[0]) + " has " + decimal(share, 2) + " times its fair share, " +
                percent(share * load.top_k() / load.n_experts()) + " of all tokens, and has been this full for " +
                grouped(load.last_step() - since + 1) + " steps";
  finding.saw += hot.size() > 1 ? "; so are " + listed(std::span(hot).subspan(1)) + "." : ".";
  finding.why = "With expert parallelism the rank that holds it sets the pace of all others.";
  out.push_back(std::move(finding));
}

void ExpertWatch::not_yet(const RecentLoad& load, std::vector<Finding>& out) const {
  Finding silent = load.finding(FindingKind::dead, Severity::warning, {load.last_step(), load.last_step()}, true);
  Finding full = load.finding(FindingKind::hot, Severity::warning, silent.steps, true);
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const Expert& expert = experts_[e];
    if (expert.silent_batches >= kMeanSteps && expert.missed >= kExpected && !expert.is_dead()) {
      silent.experts.push_back(static_cast<int>(e));
      silent.steps.first = std::min(silent.steps.first, expert.silent_since);
    }
    if (expert.hot_since >= 0 && !load.lasts(expert.hot_since, kHotSteps)) {
      full.experts.push_back(static_cast<int>(e));
      full.steps.first = std::min(full.steps.first, expert.hot_since);
    }
  }
  std::ranges::stable_sort(full.experts, std::greater{}, [&](int e) { return load.mean_of(e); });
  if (!silent.experts.empty()) out.push_back(std::move(silent));
  if (!full.experts.empty()) out.push_back(std::move(full));
}

void ExpertWatch::describe(const LoadEpisode& silence, const StepAxis& axis, Finding& finding) const {
  const std::string expert = std::to_string(silence.expert);
  finding.experts = {silence.expert};
  finding.title += ": expert " + expert + " was dead";
  finding.saw = "Expert " + expert + " of this layer had not one token for " + batches_text(kDeadBatches) +
                " or more over " + axis.words(silence.steps) + ", and came back.";
}

}  // namespace moescope
