// Trains the runs of claims and measures their comparisons.
//
// Every run trains on a single thread, and as many runs train at a time as there are threads. For such small models
// this is faster than parallel loops within a run. Equal runs of several claims train once.
#pragma once

#include <functional>
#include <span>

#include "core/lessons/claim.h"
#include "core/lessons/claim_results.h"

namespace moescope {

// `progress` is called with the number of finished runs and of all runs, by one thread at a time. All threads are used,
// so no other parallel loop may run at the same time. Throws std::runtime_error if a training fails; a run whose loss
// becomes NaN or infinite is lost, which is not a failure. Sets date and machine of the results.
ClaimResults try_claims(std::span<const Claim> claims, const std::function<void(int ended, int all)>& progress = {});

}  // namespace moescope
