// The marker of a live change holds the whole change.
#include <gtest/gtest.h>

#include "core/config/config_field.h"
#include "core/frame/frame.h"
#include "core/training/engine/retrain.h"

namespace moescope {
namespace {

TEST(RecordedRun, EveryLiveSettingIsMadeAgain) {
  int settings = 0;
  for (const ConfigField& field : config_fields()) {
    if (!field.live) continue;
    const ConfigValue value = field.get(RunConfig{});
    const LiveChange change = recorded_change(change_marker(2, 7, field.key, "", to_string(value)));
    EXPECT_EQ(change.setting, Setting(field));
    EXPECT_EQ(change.value, value) << field.key;
    EXPECT_EQ(change.run, 2);
    ++settings;
  }
  EXPECT_GT(settings, 15);
}

TEST(RecordedRun, IncompleteRecordingIsRefusedWithStep) {
  const std::pair<const char*, const char*> changes[] = {
      {"", ""}, {"lr", "1"}, {"no.such", "2"}, {"optimizer.lr", ""}, {"optimizer.lr", "fast"}, {"optimizer.lr", "-3"}};
  for (const auto& [key, value] : changes) {
    try {
      recorded_change({2, 7, kChangeKind, "", key, value});
      ADD_FAILURE() << key << ' ' << value;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("at step 7"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace moescope
