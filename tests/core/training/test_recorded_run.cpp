// What markers say of a change is the change.
#include <gtest/gtest.h>

#include "core/config/config_field.h"
#include "core/frame/change_marker.h"
#include "core/training/recorded_run.h"

namespace moescope {
namespace {

// Of a recording of format 5, which holds the sentence alone.
Marker marker(std::string text) {
  Marker read{2, 7, kChangeKind, std::move(text)};
  read_change_text(read);
  return read;
}

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

TEST(RecordedRun, EveryLiveSettingIsReadBackFromItsWords) {
  int settings = 0;
  for (const ConfigField& field : config_fields()) {
    if (!field.live || field.key.starts_with("telemetry.")) continue;
    RunConfig other;
    const ConfigValue value = field.get(other);
    const std::string words = to_string(value);
    const LiveChange change = recorded_change(marker(change_text(field.key, words, words, settings % 2 == 0)));
    EXPECT_EQ(change.setting, Setting(field));
    EXPECT_EQ(change.value, value) << field.key;
    EXPECT_EQ(change.run, 2);
    ++settings;
  }
  EXPECT_GT(settings, 10);
}

TEST(RecordedRun, NumbersTextsAndChoices) {
  EXPECT_EQ(std::get<double>(recorded_change(marker("router.bias_update_rate 0.001 -> 0.1")).value), 0.1);
  EXPECT_EQ(std::get<std::string>(recorded_change(marker("data.mixture none -> JSON=1")).value), "JSON=1");
  EXPECT_EQ(std::get<std::string>(recorded_change(marker("data.mixture JSON=1 -> none")).value), "");
  EXPECT_EQ(std::get<std::string>(recorded_change(marker("router.aux_mode batch -> none")).value), "none");
}

TEST(RecordedRun, WhatIsNotKnownInFullIsRefusedWithItsStep) {
  for (const char* text : {"", "lr", "no.such 1 -> 2", "optimizer.lr 1", "optimizer.lr 1 -> fast",
                           "optimizer.lr 1 -> -3", "data.mixture none -> prose=1, co..."}) {
    try {
      recorded_change(marker(text));
      ADD_FAILURE() << text;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("at step 7"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace moescope
