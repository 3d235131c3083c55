#include "core/findings/imbalance_watch.h"

#include <fmt/core.h>

#include <cmath>
#include <numeric>

#include "core/files/text/words.h"

namespace moescope {

namespace {

constexpr double kUnevenSum = 0.5;  // uneven batches: the MaxVio of their sum is below this share of their mean MaxVio
constexpr double kSettling = 0.8;   // a load settles if its MaxVio is below this share of the highest MaxVio
constexpr double kMinFullestRatio = 0.95;
constexpr std::int64_t kFirstSteps = 150;  // an imbalance that began in these steps may be due to an untrained router

std::int64_t uneven_steps(double level, bool nothing_balances) {
  const auto steps = static_cast<std::int64_t>(2 * kUnevenSteps / (1 + level));
  return nothing_balances ? steps / 2 : steps;
}

}  // namespace

void ImbalanceWatch::block(const RecentLoad& load) {
  const double max_vio = load.fullest_share() - 1, uneven = uneven_vio(load);
  for (std::size_t i = 0; i < uneven_.size(); ++i) {
    const double level = kUnevenLevels[i] * uneven;
    load.follow(load.max_possible_vio() > 0 && max_vio >= level, max_vio < kCooledShare * level, uneven_[i]);
  }
  highest_vio_ = uneven_[0].goes_on() ? std::max(highest_vio_, max_vio) : 0;
  load.follow(uneven_rank(load, kUnevenRank).has_value(), !uneven_rank(load, kCooledShare * kUnevenRank), rank_);
  const double batch = load.mean_max_vio(), chance = load.chance().batch_max_vio;
  const double excess = std::min(kUnevenBatch, kUnevenBatchWay * load.max_possible_vio());
  const auto is_uneven = [&](double part) {
    return batch - chance >= part * excess && batch >= part * kUnevenBatchTimes * chance &&
           load.max_possible_vio() > 0 && part * max_vio < kUnevenSum * batch;
  };
  load.follow(is_uneven(1), !is_uneven(kCooledShare), batches_);
}

ImbalanceWatch::Rank ImbalanceWatch::fullest_rank(const RecentLoad& load, int ranks) {
  const std::span<const float> mean = load.mean();
  const auto width = mean.size() / ranks;
  Rank fullest{ranks};
  double squares = 0;
  for (const float u : mean) squares += (static_cast<double>(u) - 1) * (static_cast<double>(u) - 1);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto rank_loads = mean.subspan(rank * width, width);
    const double mean_load = std::accumulate(rank_loads.begin(), rank_loads.end(), 0.0) / width;
    if (mean_load > fullest.load) {
      fullest.load = mean_load;
      fullest.rank = rank;
    }
  }
  const double n = mean.size(), w = width;
  const double deviation = std::sqrt(squares / n / w * (n - w) / (n - 1));
  fullest.deviations = deviation > 0 ? (fullest.load - 1) / deviation : 0;
  return fullest;
}

bool ImbalanceWatch::can_tell_ranks(int experts, int ranks) {
  if (ranks > 1) return experts % ranks == 0 && kMinNeighbours * ranks <= experts;
  for (int count = 2; kMinNeighbours * count <= experts; ++count)
    if (experts % count == 0) return true;
  return false;
}

// Prefers a small number of ranks, unless a larger number gives a clearly fuller rank.
std::optional<ImbalanceWatch::Rank> ImbalanceWatch::uneven_rank(const RecentLoad& load, double threshold) const {
  const int experts = load.n_experts();
  if (load.living() < experts) return std::nullopt;  // killed experts make the ranks uneven
  std::optional<Rank> found;
  const double deviations = std::min(kRankDeviations, kNearlyAllDeviations * std::sqrt(experts - 1.0));
  for (int ranks = 2; kMinNeighbours * ranks <= experts; ++ranks) {
    if (experts % ranks != 0 || (ranks_ > 1 && ranks != ranks_)) continue;
    const Rank fullest = fullest_rank(load, ranks);
    const bool by_chance = fullest.deviations < deviations * threshold / kUnevenRank;
    if (fullest.load < threshold || fullest.load - 1 < 2 * load.chance().max_vio || by_chance) continue;
    if (!found || kMinFullestRatio * fullest.load > found->load) found = fullest;
  }
  return found;
}

const ConditionStart* ImbalanceWatch::lasting_unevenness(const RecentLoad& load, bool nothing_balances) const {
  for (std::size_t i = 0; i < uneven_.size(); ++i)
    if (load.lasts(uneven_[i], uneven_steps(kUnevenLevels[i], nothing_balances))) return &uneven_[i];
  return nullptr;
}

void ImbalanceWatch::findings(const RecentLoad& load, bool nothing_balances, std::vector<Finding>& out) const {
  const ConditionStart* uneven = lasting_unevenness(load, nothing_balances);
  if (uneven) add_uneven(load, *uneven, out);
  if (load.lasts(rank_, kUnevenRankSteps)) add_rank(load, out);
  if (!uneven && load.lasts(batches_, kUnevenBatchSteps)) add_batches(load, out);
}

void ImbalanceWatch::add_uneven(const RecentLoad& load, const ConditionStart& start, std::vector<Finding>& out) const {
  Finding& finding = out.emplace_back(load.finding(FindingKind::uneven, start.step));
  const int fullest = load.fullest();
  finding.experts = {fullest};
  finding.title += " stays uneven";
  const std::string share = decimal(load.fullest_share());
  finding.brief = fmt::format("expert {} gets {} times its fair share", fullest, share);
  finding.observation = fmt::format(
      "MaxVio of {} together is {} and has been high {}. The fullest expert of these loads, expert {}, gets {} times "
      "its fair share.",
      window_text(load.window_loads()), decimal(load.fullest_share() - 1), load.seen_text(load.loads_since(start)),
      fullest, share);
  finding.meaning =
      "This is not the noise of single batches, which averages out over several. With expert parallelism all other "
      "ranks wait for the rank that holds the fullest expert.";
}

void ImbalanceWatch::add_rank(const RecentLoad& load, std::vector<Finding>& out) const {
  const std::optional<Rank> found = uneven_rank(load, kCooledShare * kUnevenRank);
  if (!found) return;
  Finding& finding = out.emplace_back(load.finding(FindingKind::uneven_ranks, rank_.step));
  const int width = load.n_experts() / found->ranks;
  const int first = found->rank * width, end = first + width;
  for (int e = first; e < end; ++e) finding.experts.push_back(e);
  const std::string experts = fmt::format("experts {} to {}", first, end - 1);
  const std::string times = decimal(found->load) + " times an even load";
  finding.title += ": " + experts + " carry " + times;
  finding.knobs = {&ParallelConfig::placement};
  const bool ranks_are_known = ranks_ > 1;
  finding.brief = experts + (ranks_are_known ? fmt::format(", which are on one of {} ranks,", found->ranks) : "") +
                  " together carry " + times;
  finding.observation = "Together, " + experts + " have carried " + times + " or nearly as much " +
                        load.seen_text(load.loads_since(rank_)) + ".";
  finding.observation += fmt::format(
      " These experts are neighbours: if the experts are placed in order on {} ranks, all of them are on one rank.",
      found->ranks);
  if (!ranks_are_known) finding.observation += " The log does not name the number of ranks.";
  finding.meaning =
      "With expert parallelism all other ranks wait for that rank, although no single expert is far too full. Another "
      "placement of the experts would distribute the load more evenly.";
}

void ImbalanceWatch::add_batches(const RecentLoad& load, std::vector<Finding>& out) const {
  Finding& finding = out.emplace_back(load.finding(FindingKind::uneven_batches, batches_.step));
  const std::string times = decimal(load.mean_max_vio() + 1), together = decimal(load.fullest_share());
  finding.title += ": every batch is uneven";
  finding.knobs = {&DataConfig::batch, &RouterConfig::aux_mode};
  finding.brief = "the fullest expert of a batch gets " + times +
                  " times its fair share (mean of the batches), another expert in each batch";
  finding.observation = "The fullest expert of a batch gets " + times +
                        " times its fair share, as a mean of the batches; chance alone would give it " +
                        decimal(load.chance().batch_max_vio + 1) + ". Over " + loads_text(load.window_loads()) +
                        ", together the fullest expert gets only " + together +
                        " times its fair share: another expert is the fullest in each batch. This has lasted " +
                        load.seen_text(load.loads_since(batches_)) + ".";
  finding.meaning =
      "Every step waits for the rank with the fullest expert, whichever that is. Batches that contain one kind of "
      "text, or sequences that prefer the same experts, can cause this. A mean over many batches looks even.";
}

void ImbalanceWatch::not_yet(const RecentLoad& load, std::vector<Finding>& out) const {
  if (!uneven_[0].goes_on()) return;
  Finding& finding = out.emplace_back(load.finding(FindingKind::uneven, uneven_[0].step));
  finding.experts = {load.fullest()};
}

bool ImbalanceWatch::still_settles(const RecentLoad& load) const {
  const bool from_the_start = uneven_[0].loads < load.all_loads().needed(kFirstSteps);
  return uneven_[0].goes_on() && from_the_start && load.fullest_share() - 1 < kSettling * highest_vio_;
}

}  // namespace moescope
