// The health of routers that do not train, on the texts of a checkpoint or on those of one domain: the load of all
// batches together (SpecialisationFrame::domain_DE). Nothing has to last for a while, as it must in a training, since
// every batch meets the same router. Thresholds are those of the watches: load_watch.h, expert_watch.h,
// imbalance_watch.h.
#pragma once

#include <cstddef>
#include <optional>

#include "core/findings/health.h"

namespace moescope {

// Tokens of an even share from which on an expert without a token is not explained by chance: exp(-20).
inline constexpr double kLeastToJudge = 20;

// Of the texts of RunInfo::domains[domain]; nullopt: of all texts. No domain was counted: unknown.
Health judge_texts(const History& history, std::optional<std::size_t> domain = {});

}  // namespace moescope
