// Judges whether the routers of a checkpoint are healthy on all of its texts or on those of one domain, by the load of
// all batches together (SpecialisationFrame::domain_DE). Unlike in a training, a condition does not have to last, since
// the routers do not change between batches. Thresholds are those of the watches: load_watch.h, expert_watch.h,
// imbalance_watch.h.
#pragma once

#include <cstddef>
#include <optional>

#include "core/findings/health.h"

namespace moescope {

// Least number of tokens of an even share for a judgement; the probability that an expert misses so many by chance is
// exp(-20).
inline constexpr double kLeastToJudge = 20;

// Judges the texts of RunInfo::domains[domain]; nullopt: all texts. The verdict is `unknown` if the history has no
// loads by domain, or too few tokens.
Health judge_texts(const History& history, std::optional<std::size_t> domain = {});

}  // namespace moescope
