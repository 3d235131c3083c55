#include "core/findings/expert_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/files/text/words.h"

namespace moescope {

namespace {

// True if chance does not explain a load that has been below `share` of the fair share since then.
bool is_no_chance(const ConditionStart& start, double share, const RecentLoad& load) {
  const double per_load = load.tokens() * load.top_k() / load.living() / load.loads_in_window();
  return (1 - share) * load.loads_since(start).loads * per_load >= kExpected;
}

bool lasts_without_chance(const ConditionStart& start, std::int64_t steps, double share, const RecentLoad& load) {
  return load.lasts(start, steps) && is_no_chance(start, share, load);
}

}  // namespace

std::vector<LoadEpisode> ExpertWatch::block(const LoadBlock& block, const RecentLoad& load) {
  std::vector<LoadEpisode> episodes = count_silence(block, load);
  if (load.can_be_judged()) follow_means(load);
  return episodes;
}

// Counts consecutive batches without a token. A step without a logged load neither ends nor begins such an episode.
std::vector<LoadEpisode> ExpertWatch::count_silence(const LoadBlock& block, const RecentLoad& load) {
  std::vector<LoadEpisode> episodes;
  const std::size_t n = experts_.size();
  for (std::size_t s = 0; s < block.utilisation.size() / n; ++s) {
    const std::span<const float> row = block.utilisation.subspan(s * n, n);
    if (std::isnan(row[0])) continue;
    const auto step = block.first + static_cast<std::int64_t>(s);
    const double share = static_cast<double>(block.assignments[s]) / load.living();
    for (std::size_t e = 0; e < n; ++e) {
      Expert& expert = experts_[e];
      if (row[e] == 0 && !load.is_killed(e)) {
        if (expert.silent_loads++ == 0) {
          expert.silent_since = step;
          expert.missed = 0;
        }
        expert.silent_last = step;
        expert.missed += share;
        if (expert.silent_loads > expert.longest_silence.loads) expert.longest_silence = silence(expert, load);
      } else {
        // In a thinned history a merged row is silent if one of its batches was, so past episodes are only reported if
        // every step has a load.
        const bool whole = step - expert.silent_since == expert.silent_loads;
        if (is_dead(expert, load) && whole && row[e] > 0 && !load.are_totals())
          episodes.push_back({FindingKind::dead, {expert.silent_since, step - 1}, to_int(e)});
        expert.silent_loads = 0;
      }
    }
  }
  return episodes;
}

bool ExpertWatch::is_silent_for(std::int64_t steps, const Expert& expert, const RecentLoad& load) {
  if (expert.silent_loads == 0 || expert.missed < kExpected) return false;
  return load.are_totals() || silence(expert, load).lasts(steps);
}

void ExpertWatch::follow_means(const RecentLoad& load) {
  const double hot_load = std::min(kHotShare, 1 + kHotShareOfRange * load.max_possible_vio());
  const double hot = std::max(hot_load, 1 + 2 * load.chance().max_vio);
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const double share = load.share(e);
    const bool killed = load.is_killed(e);
    const auto is_below = [](double threshold) {
      return [threshold](double block_load) { return block_load < threshold; };
    };
    load.follow(e, is_below(kStarvedShare), share < kStarvedShare && !killed, share > kFedShare || killed,
                experts_[e].starved);
    load.follow(e, is_below(kUnderusedShare), share < kUnderusedShare && !killed, share > kUsedShare || killed,
                experts_[e].underused);
    load.follow(
        e, [hot](double block_load) { return block_load >= hot; }, load.max_possible_vio() > 0 && share >= hot,
        share < kCooledShare * hot, experts_[e].hot);
  }
}

std::vector<int> ExpertWatch::starved_experts(const RecentLoad& load) const {
  return experts_where(experts_, [&](const Expert& expert) {
    return !is_dead(expert, load) && lasts_without_chance(expert.starved, kStarvedSteps, kStarvedShare, load);
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
  std::vector<int> dead = experts_where(experts_, [&](const Expert& expert) { return is_dead(expert, load); });
  if (dead.empty()) return;
  std::ranges::stable_sort(dead, {}, [&](int e) { return state_of(e).silent_since; });
  const Expert& longest = state_of(dead[0]);
  Finding& finding = out.emplace_back(load.finding(FindingKind::dead, longest.silent_since));
  finding.experts = dead;
  const bool one = dead.size() == 1;
  const std::string expert = fmt::format("expert {}", dead[0]), duration = load.seen_text(silence(longest, load));
  finding.title += one ? ": " + expert + " has been dead " + duration : fmt::format(": {} dead experts", dead.size());
  const std::string names = listed(dead) + load.on_ranks(dead);
  finding.brief = (one ? "expert " : "experts ") + names + (one ? " gets" : " get") + " no token";
  finding.observation = (one ? "Expert " : "Experts ") + names + (one ? " has" : " have") + " had no token" +
                        (one ? " " : ", " + expert + " ") + duration + ", since step " +
                        load.axis().name(longest.silent_since) + ".";
  finding.meaning = "Without tokens there is no gradient: the parameters are stored and never used.";
}

void ExpertWatch::add_starved(const RecentLoad& load, std::vector<Finding>& out) const {
  std::vector<int> starved = starved_experts(load);
  if (starved.empty()) return;
  const ConditionStart& longest =
      state_of(std::ranges::min(starved, {}, [&](int e) { return state_of(e).starved.step; })).starved;
  LoadSpan silence;
  for (const int e : starved)
    if (state_of(e).longest_silence.loads > silence.loads) silence = state_of(e).longest_silence;
  std::ranges::stable_sort(starved, {}, [&](int e) { return load.mean_of(e); });
  Finding& finding = out.emplace_back(load.finding(FindingKind::starved, longest.step));
  finding.experts = starved;
  const bool one = starved.size() == 1;
  finding.title += ": " + counted(std::ssize(starved), "starved expert", "starved experts");
  const std::string names = listed(starved) + load.on_ranks(starved);
  finding.brief = (one ? "expert " : "experts ") + names + (one ? " gets" : " get") + " almost no tokens";
  finding.observation = (one ? "Expert " : "Experts ") + names + (one ? " has" : " have") + " got less than " +
                        percent(kStarvedShare) + " of the fair share" + (one ? " " : ", the first of them ") +
                        load.seen_text(load.loads_since(longest)) + ".";
  finding.observation += silence.loads > 0 ? " The longest time without a token was " + loads_text(silence) + "."
                                           : " None of them was ever without a token.";
  finding.meaning =
      "Such an expert learns from a hundredth of the tokens of the other experts. A count of dead experts does not "
      "show it.";
}

// Leaves out starved experts, which are reported separately.
void ExpertWatch::add_underused(const RecentLoad& load, std::vector<Finding>& out) const {
  const std::vector<int> starved = starved_experts(load);
  std::vector<int> under;
  double idle = 0, shares = 0;
  ConditionStart longest{load.last_step()};
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const Expert& expert = experts_[e];
    const int number = to_int(e);
    if (is_dead(expert, load) || std::ranges::find(starved, number) != starved.end()) continue;
    if (!lasts_without_chance(expert.underused, kUnderusedSteps, kUnderusedShare, load)) continue;
    under.push_back(number);
    idle += (1 - load.share(e)) / load.living();
    shares += load.share(e);
    if (expert.underused.step <= longest.step) longest = expert.underused;
  }
  if (under.empty() || idle < kIdleCapacity) return;
  std::ranges::stable_sort(under, {}, [&](int e) { return load.mean_of(e); });
  Finding& finding = out.emplace_back(load.finding(FindingKind::underused, longest.step));
  finding.experts = under;
  const std::string mean = decimal(shares / under.size(), 2);
  const bool one = under.size() == 1;
  finding.title += ": " + counted(std::ssize(under), "underused expert", "underused experts");
  finding.brief = fmt::format("{} of {} experts ({}) {}{} times {}", under.size(), load.living(), listed(under),
                              one ? "gets " : "get ", mean, one ? "its fair share" : "their fair share, on average");
  finding.observation = (one ? "Expert " : "Experts ") + listed(under) + (one ? " has" : " have") + " got less than " +
                        decimal(kUnderusedShare) + " of the fair share" + (one ? " " : ", the first of them ") +
                        load.seen_text(load.loads_since(longest)) + ", at present " + mean + " of it" +
                        (one ? "" : " on average") + ": " + percent(idle) + " of the layer's capacity is idle.";
  finding.meaning =
      "Underused experts learn slowly, and the other experts carry their load. MaxVio does not show it, because it "
      "measures the fullest expert.";
}

void ExpertWatch::add_hot(const RecentLoad& load, std::vector<Finding>& out) const {
  std::vector<int> hot = hot_experts(load);
  if (hot.empty()) return;
  const ConditionStart& longest = state_of(std::ranges::min(hot, {}, [&](int e) { return state_of(e).hot.step; })).hot;
  std::ranges::stable_sort(hot, std::greater{}, [&](int e) { return load.mean_of(e); });
  const double share = load.mean_of(hot[0]);
  Finding& finding = out.emplace_back(load.finding(FindingKind::hot, longest.step));
  finding.experts = hot;
  finding.title +=
      hot.size() == 1 ? fmt::format(": expert {} is hot", hot[0]) : fmt::format(": {} hot experts", hot.size());
  finding.brief = (hot.size() == 1 ? "expert " : "experts ") + listed(hot) +
                  (hot.size() == 1 ? " gets " : " get up to ") + decimal(share) + " times " +
                  (hot.size() == 1 ? "its" : "their") + " fair share";
  finding.observation = fmt::format("Expert {} gets {} times its fair share, {} of all tokens, and has been hot {}",
                                    hot[0], decimal(share, 2), percent(share * load.top_k() / load.n_experts()),
                                    load.seen_text(load.loads_since(longest)));
  finding.observation += hot.size() > 1 ? "; other hot experts: " + listed(std::span(hot).subspan(1)) + "." : ".";
  finding.meaning = "With expert parallelism all other ranks wait for the rank of this expert.";
}

void ExpertWatch::not_yet(const RecentLoad& load, std::vector<Finding>& out) const {
  Finding silent = load.finding(FindingKind::dead, load.last_step());
  Finding starved = load.finding(FindingKind::starved, load.last_step());
  Finding full = load.finding(FindingKind::hot, load.last_step());
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const Expert& expert = experts_[e];
    const auto add = [e](Finding& finding, std::int64_t first_step) {
      finding.experts.push_back(to_int(e));
      finding.steps.first = std::min(finding.steps.first, first_step);
    };
    const bool is_silent = is_silent_for(kMeanSteps, expert, load);
    if (is_silent && !is_dead(expert, load)) add(silent, expert.silent_since);
    if (!is_silent && expert.starved.goes_on() && is_no_chance(expert.starved, kStarvedShare, load) &&
        !load.lasts(expert.starved, kStarvedSteps))
      add(starved, expert.starved.step);
    if (expert.hot.goes_on() && !load.lasts(expert.hot, kHotSteps)) add(full, expert.hot.step);
  }
  std::ranges::stable_sort(full.experts, std::greater{}, [&](int e) { return load.mean_of(e); });
  if (!silent.experts.empty()) out.push_back(std::move(silent));
  if (!starved.experts.empty()) out.push_back(std::move(starved));
  if (!full.experts.empty()) out.push_back(std::move(full));
}

void ExpertWatch::describe(const LoadEpisode& silence, const StepAxis& axis, Finding& finding) const {
  const std::string expert = std::to_string(silence.expert);
  finding.experts = {silence.expert};
  finding.title += ": expert " + expert + " was dead";
  finding.observation = "Expert " + expert + " of this layer had no token over " + axis.words(silence.steps) +
                        ", and then got tokens again.";
}

}  // namespace moescope
