#include "core/training/engine/recomputed_scan.h"

#include <stdexcept>

namespace moescope {

RecomputedScan::RecomputedScan(RecomputePlan plan)
    : plan_(std::move(plan)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

RecomputedScan::~RecomputedScan() = default;

void RecomputedScan::work(const std::stop_token& stop) {
  try {
    float loss = kNoValue;
    retrain(
        plan_.training,
        [&](Engine& engine) {
          if (stop.stop_requested()) throw std::runtime_error("cancelled");
          next_step_ = engine.next_step();
          if (next_step_ == plan_.step) scan_operands_of(engine, stop);
          return next_step_ <= plan_.step;
        },
        [&](const TelemetryFrame& frame) {
          loss = frame.ce_loss;
          return true;
        });
    check_loss(plan_, loss);
    scan_ = std::move(found_);
  } catch (const std::exception& error) {
    error_ = error.what();
  }
  over_ = true;
}

void RecomputedScan::scan_operands_of(Engine& engine, const std::stop_token& stop) {
  Trainer& copy = *engine.find(0);
  if (scanned_operands(copy.config(), std::nullopt).empty())
    throw std::runtime_error("nothing of run " + copy.config().name + " is rounded at step " +
                             std::to_string(plan_.step));
  found_ = copy.scan_operands(engine.batch(plan_.step), std::nullopt, [&](int done, int of) {
    done_ = done;
    of_ = of;
    return !stop.stop_requested();
  });
  if (!found_) throw std::runtime_error("cancelled");
}

}  // namespace moescope
