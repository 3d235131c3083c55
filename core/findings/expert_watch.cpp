#include "core/findings/expert_watch.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/io/words.h"

namespace moescope {

namespace {

// True if a load below `share` of the fair share has lasted for `steps` steps and is not due to chance.
bool lasts_without_chance(const ConditionStart& since, std::int64_t steps, double share, const RecentLoad& load) {
  const double per_load = load.tokens() * load.top_k() / load.living() / load.loads_in_window();
  const double expected = static_cast<double>(load.loads() - since.loads) * per_load;
  return load.lasts(since, steps) && (1 - share) * expected >= kExpected;
}

}  // namespace

std::vector<LoadEpisode> ExpertWatch::block(const LoadBlock& block, const RecentLoad& load) {
  std::vector<LoadEpisode> over = count_silence(block, load);
  if (load.is_full()) follow_means(load);
  return over;
}

// Counts consecutive batches without a token. A step without a logged load neither ends nor begins such an episode.
std::vector<LoadEpisode> ExpertWatch::count_silence(const LoadBlock& block, const RecentLoad& load) {
  std::vector<LoadEpisode> over;
  const std::size_t n = experts_.size();
  for (std::size_t s = 0; s < block.utilisation.size() / n; ++s) {
    const std::span<const float> row = block.utilisation.subspan(s * n, n);
    if (std::isnan(row[0])) continue;
    const auto step = block.first + static_cast<std::int64_t>(s);
    const double share = static_cast<double>(block.assignments[s]) / load.living();
    for (std::size_t e = 0; e < n; ++e) {
      Expert& expert = experts_[e];
      expert.had_token |= row[e] > 0;
      if (row[e] == 0 && !load.is_killed(e)) {
        if (expert.silent_batches++ == 0) expert.silent_since = step, expert.missed = 0;
        expert.silent_last = step;
        expert.missed += share;
        expert.longest_silence = std::max(expert.longest_silence, expert.silent_batches);
      } else {
        // In a thinned history a merged row is silent if one of its batches was, so past episodes are not reported for
        // merged rows.
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
  const double way = std::min(kHotShare, 1 + kHotWay * load.most());
  const double hot = std::max(way, 1 + 2 * load.chance().max_vio);
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const double share = load.share(e);
    const bool killed = load.is_killed(e);
    load.follow(share < kStarvedShare && !killed, share > kFedShare || killed, experts_[e].starved);
    load.follow(share < kUnderusedShare && !killed, share > kUsedShare || killed, experts_[e].underused);
    load.follow(load.most() > 0 && share >= hot, share < kCooled * hot, experts_[e].hot);
  }
}

std::vector<int> ExpertWatch::hot_experts(const RecentLoad& load) const {
  return experts_where(experts_, [&](const Expert& each) { return load.lasts(each.hot, kHotSteps); });
}

std::vector<int> ExpertWatch::starved_experts(const RecentLoad& load) const {
  return experts_where(experts_, [&](const Expert& each) {
    return !each.is_dead() && lasts_without_chance(each.starved, kStarvedSteps, kStarvedShare, load);
  });
}

void ExpertWatch::findings(const RecentLoad& load, bool collapsed, std::vector<Finding>& out) const {
  add_dead(load, out);
  add_starved(load, out);
  if (collapsed) return;
  add_underused(load, out);
  add_hot(load, out);
}

void ExpertWatch::add_dead(const RecentLoad& load, std::vector<Finding>& out) const {
  std::vector<int> dead = experts_where(experts_, &Expert::is_dead);
  if (dead.empty()) return;
  std::ranges::stable_sort(dead, {}, [&](int e) { return of(e).silent_since; });
  const Expert& longest = of(dead[0]);
  Finding finding = load.finding(FindingKind::dead, Severity::severe, longest.silent_since);
  finding.experts = dead;
  finding.metric = Metric::dead_fraction;
  const bool one = dead.size() == 1;
  const std::string batches = load.batches_text(longest.silent_batches);
  finding.title += one ? ": expert " + std::to_string(dead[0]) + " has been dead for " + batches
                       : ": " + std::to_string(dead.size()) + " dead experts";
  finding.brief = (one ? "expert " : "experts ") + listed(dead) + (one ? " gets" : " get") + " no token";
  finding.observation = (one ? "Expert " : "Experts ") + listed(dead) + (one ? " has" : " have") + " had no token for ";
  finding.observation +=
      one ? "" : grouped(kDeadSteps) + " steps and more, expert " + std::to_string(dead[0]) + " for ";
  finding.observation += batches + ", since step " + load.axis().name(longest.silent_since) + ".";
  finding.why = "Without tokens there is no gradient: the parameters are stored and never used.";
  out.push_back(std::move(finding));
}

void ExpertWatch::add_starved(const RecentLoad& load, std::vector<Finding>& out) const {
  std::vector<int> starved = starved_experts(load), without;
  if (starved.empty()) return;
  std::int64_t since = load.last_step(), silence = 0;
  for (const int e : starved) {
    since = std::min(since, of(e).starved.step);
    silence = std::max(silence, of(e).longest_silence);
    if (!of(e).had_token) without.push_back(e);
  }
  std::ranges::stable_sort(starved, {}, [&](int e) { return load.mean_of(e); });
  Finding finding = load.finding(FindingKind::starved, Severity::warning, since);
  finding.experts = starved;
  const bool one = starved.size() == 1;
  const std::string of_log = "in all " + grouped(load.loads()) + " batches of the log";
  finding.title += ": " + counted(std::ssize(starved), "starved expert", "starved experts");
  finding.brief = (one ? "expert " : "experts ") + listed(starved) + (one ? " gets" : " get") +
                  (without.size() == starved.size() ? " no token " + of_log : " almost no tokens");
  finding.observation = (one ? "Expert " : "Experts ") + listed(starved) + (one ? " has" : " have") +
                        " got less than " + percent(kStarvedShare) + " of the fair share for " +
                        grouped(kStarvedSteps) + " steps or more (up to " + grouped(load.last_step() - since + 1) +
                        ").";
  if (!without.empty())
    finding.observation += (without.size() == 1 ? " Expert " : " Experts ") + listed(without) +
                           (without.size() == 1 ? " has" : " have") + " no token " + of_log + ".";
  if (without.size() < starved.size())
    finding.observation += silence > 0 ? " The longest time without a token was " + load.batches_text(silence) + "."
                                       : " None of them was ever without a token.";
  finding.why =
      "Such an expert learns from a hundredth of the tokens of the other experts. A count of dead experts does not "
      "show it.";
  out.push_back(std::move(finding));
}

// Leaves out starved experts, which are reported separately.
void ExpertWatch::add_underused(const RecentLoad& load, std::vector<Finding>& out) const {
  const std::vector<int> starved = starved_experts(load);
  std::vector<int> under;
  double idle = 0, shares = 0;
  std::int64_t since = load.last_step();
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const Expert& expert = experts_[e];
    const int number = static_cast<int>(e);
    if (expert.is_dead() || std::ranges::find(starved, number) != starved.end()) continue;
    if (!lasts_without_chance(expert.underused, kUnderusedSteps, kUnderusedShare, load)) continue;
    under.push_back(number);
    idle += (1 - load.share(e)) / load.living();
    shares += load.share(e);
    since = std::min(since, expert.underused.step);
  }
  if (under.empty() || idle < kIdleCapacity) return;
  std::ranges::stable_sort(under, {}, [&](int e) { return load.mean_of(e); });
  Finding finding = load.finding(FindingKind::underused, Severity::warning, since);
  finding.experts = under;
  const std::string mean = decimal(shares / static_cast<double>(under.size()), 2);
  const bool one = under.size() == 1;
  finding.title += ": " + counted(std::ssize(under), "underused expert", "underused experts");
  finding.brief = std::to_string(under.size()) + " of " + std::to_string(load.living()) + " experts (" + listed(under) +
                  ") " + (one ? "gets " : "get ") + mean + " times " +
                  (one ? "its fair share" : "their fair share, on average");
  finding.observation = (one ? "Expert " : "Experts ") + listed(under) + (one ? " has" : " have") + " got less than " +
                        decimal(kUnderusedShare) + " of the fair share for " + grouped(kUnderusedSteps) +
                        " steps or more, at present " + mean + " of it" + (one ? "" : " on average") + ": " +
                        percent(idle) + " of the layer's capacity is idle.";
  finding.why =
      "Underused experts learn slowly, and the other experts carry their load. MaxVio does not show it, because it "
      "measures the fullest expert.";
  out.push_back(std::move(finding));
}

void ExpertWatch::add_hot(const RecentLoad& load, std::vector<Finding>& out) const {
  std::vector<int> hot = hot_experts(load);
  if (hot.empty()) return;
  std::int64_t since = load.last_step();
  for (const int e : hot) since = std::min(since, of(e).hot.step);
  std::ranges::stable_sort(hot, std::greater{}, [&](int e) { return load.mean_of(e); });
  const double share = load.mean_of(hot[0]);
  Finding finding = load.finding(FindingKind::hot, Severity::warning, since);
  finding.experts = hot;
  finding.title += hot.size() == 1 ? ": expert " + std::to_string(hot[0]) + " is hot"
                                   : ": " + std::to_string(hot.size()) + " hot experts";
  finding.brief = (hot.size() == 1 ? "expert " : "experts ") + listed(hot) +
                  (hot.size() == 1 ? " gets " : " get up to ") + decimal(share) + " times " +
                  (hot.size() == 1 ? "its" : "their") + " fair share";
  finding.observation = "Expert " + std::to_string(hot[0]) + " gets " + decimal(share, 2) + " times its fair share, " +
                        percent(share * load.top_k() / load.n_experts()) + " of all tokens, and has been hot for " +
                        grouped(load.last_step() - since + 1) + " steps";
  finding.observation += hot.size() > 1 ? "; other hot experts: " + listed(std::span(hot).subspan(1)) + "." : ".";
  finding.why = "With expert parallelism all other ranks wait for the rank of this expert.";
  out.push_back(std::move(finding));
}

void ExpertWatch::not_yet(const RecentLoad& load, std::vector<Finding>& out) const {
  Finding silent = load.finding(FindingKind::dead, Severity::warning, load.last_step());
  Finding full = load.finding(FindingKind::hot, Severity::warning, load.last_step());
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const Expert& expert = experts_[e];
    if (expert.silent_steps() >= kMeanSteps && expert.missed >= kExpected && !expert.is_dead()) {
      silent.experts.push_back(static_cast<int>(e));
      silent.steps.first = std::min(silent.steps.first, expert.silent_since);
    }
    if (expert.hot.goes_on() && !load.lasts(expert.hot, kHotSteps)) {
      full.experts.push_back(static_cast<int>(e));
      full.steps.first = std::min(full.steps.first, expert.hot.step);
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
  finding.observation = "Expert " + expert + " of this layer had no token for " + grouped(kDeadSteps) +
                        " steps or more over " + axis.words(silence.steps) + ", and then got tokens again.";
}

}  // namespace moescope
