// The words of a verdict, and what would decide an unclear one.
#include <gtest/gtest.h>

#include "core/findings/comparison/verdict_words.h"

namespace moescope {
namespace {

Conclusion judged(Verdict verdict, float gap, float half_width) {
  Conclusion c;
  c.verdict = verdict;
  c.steps = {500, 999};
  c.gap = gap;
  c.half_width = half_width;
  c.matters = 0.0019f;
  c.twins = 1;
  return c;
}

std::string reason(const Conclusion& c) {
  return verdict_reasons(c).front();
}

TEST(VerdictWords, AVerdictIsOneOfSevenWords) {
  EXPECT_STREQ(to_text(verdict_word(judged(Verdict::equal, 0.0004f, 0.0012f))), "Good enough");
  EXPECT_STREQ(to_text(verdict_word(judged(Verdict::identical, 0, 0))), "Good enough");
  EXPECT_STREQ(to_text(verdict_word(judged(Verdict::unclear, 0.0023f, 0.0031f))), "Not told apart");
  Conclusion held = judged(Verdict::unclear, 0.0172f, 0.0042f);
  held.held_back = Verdict::worse;
  EXPECT_STREQ(to_text(verdict_word(held)), "Not settled");
  EXPECT_STREQ(to_text(verdict_word(judged(Verdict::worse, 0.0172f, 0.0042f))), "Worse");
  EXPECT_STREQ(to_text(verdict_word(judged(Verdict::better, -0.0172f, 0.0042f))), "Better");
  Conclusion early;
  early.missing_steps = 41;
  EXPECT_STREQ(to_text(verdict_word(early)), "Too early to tell");
  EXPECT_EQ(reason(early), "verdict in 41 steps");
  Conclusion lost = judged(Verdict::lost, kNoValue, kNoValue);
  EXPECT_STREQ(to_text(verdict_word(lost)), "Worse");
  EXPECT_EQ(reason(lost), "NaN or infinite from step 500");
  lost.lost_is_a = true;
  EXPECT_STREQ(to_text(verdict_word(lost)), "Better");
}

TEST(VerdictWords, ATwinIsAskedForOnlyWhereThereIsNone) {
  Conclusion conclusion = judged(Verdict::no_twin, 0.002f, 0.001f);
  EXPECT_STREQ(to_text(verdict_word(conclusion)), "Not judged");
  EXPECT_EQ(reason(conclusion), "no noise twin to compare with");
  conclusion.missing_steps = 12;
  EXPECT_STREQ(to_text(verdict_word(conclusion)), "Too early to tell");
  EXPECT_EQ(reason(conclusion), "the noise twin needs 12 steps more");
}

// "Not told apart" says that the interval is across an edge of the band. Without an interval there are other words.
TEST(VerdictWords, WithoutAnIntervalARunIsNotJudgedOrItIsTooEarly) {
  for (const Verdict verdict : {Verdict::too_short, Verdict::no_twin, Verdict::twins_near}) {
    Conclusion c = judged(verdict, 0.52f, kNoValue);
    EXPECT_EQ(verdict_word(c), VerdictWord::not_judged);
    c.missing_steps = 7;
    EXPECT_EQ(verdict_word(c), VerdictWord::too_early);
  }
}

TEST(VerdictWords, AReasonSaysHowMuchInWhatMatters) {
  const auto worse = [](float gap) { return reason(judged(Verdict::worse, gap, 0.0001f)); };
  EXPECT_EQ(worse(0.0172f), "above the band, 9.1 times what matters");
  EXPECT_EQ(worse(0.0038f), "above the band, 2.0 times what matters");
  EXPECT_EQ(worse(0.0027f), "above the band, 1.4 times what matters");
  EXPECT_EQ(verdict_reasons(judged(Verdict::worse, 0.0027f, 0.0001f)).back(), "1.4 times what matters");
  EXPECT_EQ(reason(judged(Verdict::unclear, 0.0027f, 0.0020f)), "worse by 0.4 to 2.5 times what matters");
  EXPECT_STREQ(to_text(verdict_word(judged(Verdict::unclear, 0.0027f, 0.0020f))), "Not settled");
  EXPECT_EQ(worse(0.0760f), "above the band, 40 times what matters");
  EXPECT_EQ(reason(judged(Verdict::better, -0.0057f, 0.0001f)), "below the band, 3.0 times what matters");
  EXPECT_EQ(reason(judged(Verdict::equal, 0.0004f, 0.0012f)), "inside the band");
  EXPECT_EQ(reason(judged(Verdict::unclear, 0.0023f, 0.0031f)), "gaps below 0.0031 may be chance");
}

// An interval that ends within a tenth of the gap that matters from an edge of the band.
TEST(VerdictWords, AVerdictAtTheEdgeOfTheBandSaysSo) {
  EXPECT_EQ(reason(judged(Verdict::worse, 0.0040f, 0.0020f)),
            "above the band, 2.1 times what matters, ends at the edge");
  EXPECT_EQ(reason(judged(Verdict::equal, 0.0004f, 0.0014f)), "inside the band, ends at the edge");
  EXPECT_FALSE(is_at_edge(judged(Verdict::worse, 0.0042f, 0.0020f)));
  EXPECT_FALSE(is_at_edge(judged(Verdict::unclear, 0.0038f, 0.0020f)));
  EXPECT_NE(verdict_sentence([] {
              Conclusion c = judged(Verdict::better, -0.0040f, 0.0020f);
              c.name = "B";
              return c;
            }())
                .find("at the edge of the band: another seed may give another verdict"),
            std::string::npos);
}

TEST(VerdictWords, AnotherTwinSettlesWhatItsIntervalWouldDecide) {
  std::vector<Conclusion> runs = {judged(Verdict::equal, 0.0004f, 0.0012f), judged(Verdict::unclear, 0.0023f, 0.0031f),
                                  judged(Verdict::worse, 0.0172f, 0.0042f)};
  runs[1].half_with_another = 0.0003f;
  const Settlement found = what_settles(runs, true);
  EXPECT_EQ(found.how, Settlement::How::another_twin);
  EXPECT_EQ(found.settled, std::vector<std::size_t>{1});
  EXPECT_FLOAT_EQ(found.half_width, 0.0003f);
  runs[1].half_with_another = 0.0016f;  // narrower, but still across the edge of the band
  EXPECT_EQ(what_settles(runs, true).how, Settlement::How::another_twin);
  EXPECT_TRUE(what_settles(runs, true).settled.empty());
  EXPECT_EQ(what_settles(std::span(runs).first(1), true).how, Settlement::How::nothing);
}

// Chance by routing is what another twin or more steps would not remove.
TEST(VerdictWords, ForcedBalanceIsOfferedWhereChanceComesFromTheRouting) {
  std::vector<Conclusion> runs = {judged(Verdict::worse, 0.0172f, 0.0042f), judged(Verdict::unclear, 0.003f, 0.04f)};
  runs[1].half_with_another = 0.02f;
  runs[1].drift_of_twins = 0.5f;
  EXPECT_EQ(what_settles(runs, true).how, Settlement::How::another_twin);
  const Settlement found = what_settles(runs, true, true);
  EXPECT_EQ(found.how, Settlement::How::forced_balance);
  EXPECT_EQ(found.settled, std::vector<std::size_t>{1});
  runs[1].half_with_another = 0.001f;  // another twin would do
  EXPECT_EQ(what_settles(runs, true, true).how, Settlement::How::another_twin);
  runs[1].drift_of_twins = 0;
  EXPECT_EQ(what_settles(runs, false, true).how, Settlement::How::nothing);
}

TEST(VerdictWords, WithoutRoomForATwinSeedsDecide) {
  std::vector<Conclusion> runs = {judged(Verdict::unclear, 0.0040f, 0.004f), judged(Verdict::worse, 0.0172f, 0.0042f)};
  runs[0].half_with_another = 0.001f;
  EXPECT_EQ(what_settles(runs, false).how, Settlement::How::nothing);
  EXPECT_TRUE(depends_on_seed(runs[0]));
  EXPECT_FALSE(depends_on_seed(runs[1]));
  runs[1].forced_balance = true;
  EXPECT_TRUE(depends_on_seed(runs[1]));
  runs[0].is_on_texts = true;
  EXPECT_FALSE(depends_on_seed(runs[0])) << "checkpoints";
}

TEST(VerdictWords, AVerdictFollowsAfterTheMissingSteps) {
  std::vector<Conclusion> runs(2);
  for (Conclusion& conclusion : runs) conclusion.steps = {0, 8};
  runs[0].missing_steps = 30;
  runs[1].missing_steps = 41;
  const Settlement found = what_settles(runs, true);
  EXPECT_EQ(found.how, Settlement::How::more_steps);
  EXPECT_EQ(found.missing_steps, 41);
  EXPECT_EQ(found.step, 50);
  EXPECT_EQ(what_settles({}, true).how, Settlement::How::nothing);
  const std::vector<Conclusion> conclusions = {judged(Verdict::no_twin, 0.002f, 0.001f)};
  EXPECT_EQ(what_settles(conclusions, true).how, Settlement::How::first_twin);
}

}  // namespace
}  // namespace moescope
