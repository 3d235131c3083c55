// Trains the runs of claims and measures their comparisons.
//
// Every run trains alone on one thread, as many at a time as there are threads: for models this small this is faster
// than loops over several threads. Equal runs of several claims train once.
#pragma once

#include <functional>
#include <span>

#include "core/lessons/claim.h"
#include "core/lessons/claim_results.h"

namespace moescope {

// `progress` is called with the runs that have ended and all runs, by one thread at a time. All threads are used, so no
// other loop may run at the same time. Throws std::runtime_error if a training fails; a run whose loss becomes NaN or
// infinite is lost, which is no failure. Date and machine of the results are set.
ClaimResults try_claims(std::span<const Claim> claims, const std::function<void(int ended, int all)>& progress = {});

}  // namespace moescope
