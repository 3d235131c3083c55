// A fixture for tests that train a short run step by step.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "core/config/config_field.h"
#include "core/training/trainer.h"
#include "tests/support/small_run.h"

namespace moescope {

class TrainerTest : public testing::Test {
 protected:
  TrainerTest() { config_.telemetry.window = 3; }
  TelemetryFrame step(Trainer& trainer) { return trainer.step(data_->batch(trainer.steps_taken())); }
  static LiveChange change(Setting setting, ConfigValue value) { return {0, setting, std::move(value)}; }

  RunConfig config_ = small_run();
  std::unique_ptr<Dataset> data_ = open_dataset(config_.data, config_.seed);
};

}  // namespace moescope
