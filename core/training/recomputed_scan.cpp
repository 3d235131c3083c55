#include "core/training/recomputed_scan.h"

#include <stdexcept>

#include "core/training/trainer.h"

namespace moescope {

RecomputedScan::RecomputedScan(RecomputePlan plan)
    : plan_(std::move(plan)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

RecomputedScan::~RecomputedScan() = default;

void RecomputedScan::work(const std::stop_token& stop) {
  try {
    RunCopy copy = train_copy(plan_, stop, [this](std::int64_t next) { next_step_ = next; });
    if (scanned_operands(copy.trainer.config(), std::nullopt).empty())
      throw std::runtime_error("nothing of run " + plan_.config.name + " is rounded at step " +
                               std::to_string(plan_.step));
    auto found = copy.trainer.scan_operands(copy.batch, std::nullopt, [&](int done, int of) {
      done_ = done;
      of_ = of;
      return !stop.stop_requested();
    });
    if (!found) throw std::runtime_error("cancelled");
    check_loss(plan_, copy.trainer.step(copy.batch).ce_loss);
    scan_ = std::move(found);
  } catch (const std::exception& error) {
    error_ = error.what();
  }
  over_ = true;
}

}  // namespace moescope
