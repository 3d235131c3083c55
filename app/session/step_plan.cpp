#include "app/session/step_plan.h"

#include "app/session/run_session.h"

namespace moescope {

RecomputePlan planOfStep(const RunSession& session, const History& run, const OperandPlace& place, std::int64_t step) {
  const auto& histories = session.histories();
  if (const LiveRuns* live = session.live())
    return plan_recompute(run, *histories.front(), place, step, live->checkpoint_before(run.info().run, step));
  // Runs from several files each read their own batches.
  const bool several = session.paths().size() > 1;
  return plan_recompute(
      run, several ? run : *histories.front(), place, step, nullptr,
      several ? std::string() : recorded_checkpoint(session.path().toStdString(), run.info().name, step));
}

}  // namespace moescope
