// Every named format is known wherever operands are judged or chosen: findings, cards, comparison, replay page,
// settings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/config/config_field.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "core/findings/explain/explain.h"
#include "core/findings/replay/replay_page.h"
#include "core/numerics/number_format.h"
#include "tests/support/made_up_run.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

constexpr int kStepsInAFormat = 150;

QuantFrame operand_in(const std::string& format, Gemm gemm, int layer, float sqnr_db) {
  QuantFrame quant;
  quant.layer = layer;
  quant.gemm = gemm;
  quant.format = quant_format(format);
  quant.sqnr_db = sqnr_db;
  quant.underflow = quant.clipped = quant.clipped_blocks = 0;
  quant.crest = 2.3f;
  quant.e8m0_blocks[120] = 64;
  return quant;
}

HistoryPtr run_in(const std::string& format, float sqnr_db) {
  MadeUp run;
  for (int i = 0; i < kStepsInAFormat; ++i) {
    run.next().quants = {operand_in(format, Gemm::expert_w1, 1, sqnr_db), operand_in("bf16", Gemm::output, -1, 55)};
    run.push();
  }
  return run.history();
}

void expect_known(const OperandFormat& format) {
  const std::string name = format_name(format);
  SCOPED_TRACE(name);
  const QuantFormat known = quant_format(name);
  EXPECT_TRUE(known.operand == format);
  ASSERT_TRUE(std::isfinite(bell_sqnr_db(known)) && std::isfinite(bell_underflow(known)));
  EXPECT_TRUE(std::isfinite(largest_cut(known)));

  const HistoryPtr run = run_in(name, static_cast<float>(bell_sqnr_db(known)) - 9);
  const std::string findings = all_text(find_all(run));
  EXPECT_TRUE(says(findings, "Low SQNR of x (") && says(findings, " dB in " + name)) << findings;
  const Explanation card = explain_figure(*run, {.key = FigureKey("sqnr_db"), .layer = 1, .step = kStepsInAFormat - 1});
  EXPECT_TRUE(says(card.note, "bell-shaped data have about ")) << card.note;
  const OperandSqnr sqnr = operand_sqnr(std::span(&run, 1), kStepsInAFormat).front();
  EXPECT_EQ(sqnr.choice, OperandChoice::scaled);
  EXPECT_EQ(sqnr.operands, 1);
  const ReplayJson replay = operands_of(*run, {0, kStepsInAFormat - 1}, 10, std::size_t{1} << 20, [](double) {});
  EXPECT_EQ(replay["powers_of_two"].size(), format.scheme == QuantScheme::mx ? 1u : 0u);
}

TEST(NamedFormats, AreKnownToEveryConsumer) {
  for (const NamedFormat& named : named_formats()) {
    if (!is_scaled(named.format)) {
      EXPECT_EQ(quant_format(named.name).scale, QuantScale::none) << named.name;
      continue;
    }
    EXPECT_TRUE(quant_format(named.name).operand == named.format) << named.name;
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
      OperandFormat format = named.format;
      format.rounding = rounding;
      expect_known(format);
    }
  }
}

TEST(NamedFormats, OfTrainingAreOfferedBySettings) {
  for (const char* key : {"precision.override_x", "precision.override_w", "precision.override_dy"})
    for (const NamedFormat& named : named_formats())
      EXPECT_EQ(std::ranges::count(find_field(key)->choices, named.name), named.in_training ? 1 : 0) << named.name;
}

}  // namespace
}  // namespace moescope
