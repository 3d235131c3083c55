// Lines at which a log goes back to an earlier step, and lines at which it only seems to.
#include <gtest/gtest.h>

#include "core/logs/restart_rule.h"

namespace moescope {
namespace {

TEST(RestartRule, ASmallerStepOfAKeyDropsWhatCameAfter) {
  RestartRule rule;
  for (std::int64_t step = 0; step <= 150; step += 10) EXPECT_FALSE(rule.take("loss", step));
  EXPECT_EQ(rule.take("loss", 110), (Restart{110, 150}));
  EXPECT_FALSE(rule.take("loss", 120)) << "150 was dropped";
  EXPECT_FALSE(rule.take("lr", 110)) << "comes late";
}

TEST(RestartRule, TheSameStepAgainDropsWhatCameAfter) {
  RestartRule rule;
  for (const std::int64_t step : {1, 2, 3}) EXPECT_FALSE(rule.take("loss", step));
  EXPECT_FALSE(rule.take("loss", 3)) << "the newest step: only its value is replaced";
  EXPECT_FALSE(rule.take("cv", 4));
  EXPECT_EQ(rule.take("loss", 3), (Restart{3, 4}));
  EXPECT_FALSE(rule.take("cv", 4));
}

TEST(RestartRule, AKeyThatComesLateJoinsItsStep) {
  RestartRule rule;
  for (std::int64_t step = 0; step < 100; ++step) {
    EXPECT_FALSE(rule.take("loss", step));
    if (step % 10 == 5) {
      EXPECT_FALSE(rule.take("val_loss", step - 2)) << step;
    }
  }
  EXPECT_EQ(rule.take("val_loss", 63), (Restart{63, 99})) << "a value of step 93 was there";
}

TEST(RestartRule, EveryKeyIsDroppedWithTheOthers) {
  RestartRule rule;
  for (std::int64_t step = 0; step < 30; ++step)
    for (const char* key : {"a", "b", "c"}) EXPECT_FALSE(rule.take(key, step));
  EXPECT_EQ(rule.take("b", 20), (Restart{20, 29}));
  for (const char* key : {"a", "c"}) EXPECT_FALSE(rule.take(key, 20)) << key;
  EXPECT_EQ(rule.take("a", 10), (Restart{10, 20}));
  EXPECT_FALSE(rule.take("a", 15));
  EXPECT_FALSE(rule.take("c", 10));
  EXPECT_EQ(rule.take("a", 12), (Restart{12, 15}));
  EXPECT_FALSE(rule.take("b", 12));
}

TEST(RestartRule, TheLogMaySayIt) {
  RestartRule rule;
  EXPECT_FALSE(rule.go_back_to(0)) << "of an empty run";
  for (const std::int64_t step : {100, 110, 150}) rule.take("loss", step);
  EXPECT_EQ(rule.go_back_to(101), (Restart{101, 150}));
  EXPECT_FALSE(rule.go_back_to(101));
  EXPECT_FALSE(rule.take("loss", 120));
  EXPECT_EQ(restart_text({101, 150}), "continues from step 101: dropped steps 101 to 150 of an earlier attempt");
}

TEST(RestartRule, ManyRestartsAndManyKeysTakeLittleTime) {
  RestartRule rule;
  for (int key = 0; key < 20000; ++key) rule.take(std::to_string(key), 1'000'000);
  int restarts = 0;
  for (std::int64_t step = 200'000; step > 0; --step) restarts += rule.take("7", step).has_value();
  EXPECT_EQ(restarts, 200'000);
}

}  // namespace
}  // namespace moescope
