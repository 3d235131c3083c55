// SQNR of the operands in which runs differ, which a mean over all operands would hide.
#include <gtest/gtest.h>

#include <limits>

#include "core/findings/comparison/operand_sqnr.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

QuantFrame operand(Gemm gemm, const char* format, float sqnr_db, int layer = 1) {
  QuantFrame frame;
  frame.layer = layer;
  frame.gemm = gemm;
  frame.format = quant_format(format);
  frame.sqnr_db = sqnr_db;
  return frame;
}

HistoryPtr run_with(const char* name, const std::vector<QuantFrame>& operands) {
  RunInfo info;
  info.name = name;
  auto made = std::make_shared<History>(info);
  for (std::int64_t step = 0; step < 3; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = 2;
    if (step < 2) frame->quants = operands;
    made->append(std::move(frame));
  }
  return made;
}

const QuantFrame kHeadInBf16 = operand(Gemm::output, "bf16", 55.6f, -1);

TEST(OperandSqnr, IsOfTheOperandsInWhichARunDiffersFromRunA) {
  const HistoryPtr runs[] = {
      run_with("A", {operand(Gemm::expert_w1, "bf16", 55.5f), operand(Gemm::expert_w2, "bf16", 55.3f), kHeadInBf16}),
      run_with("B", {operand(Gemm::expert_w1, "mxfp8_e4m3_rceil", 31.6f),
                     operand(Gemm::expert_w2, "mxfp8_e4m3_rceil", 31.4f), kHeadInBf16}),
      run_with("C", {operand(Gemm::expert_w1, "bf16", 55.5f), operand(Gemm::expert_w2, "mxfp4_e2m1_rceil", 17.0f),
                     kHeadInBf16}),
      run_with("N", {operand(Gemm::expert_w1, "bf16", 55.4f), operand(Gemm::expert_w2, "bf16", 55.2f), kHeadInBf16})};
  const std::vector<OperandSqnr> found = operand_sqnr(runs, 2);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_FLOAT_EQ(found[1].worst_db, 31.4f);
  EXPECT_FLOAT_EQ(found[1].mean_db, 31.5f);
  EXPECT_EQ(found[1].worst.gemm, Gemm::expert_w2);
  EXPECT_EQ(found[2].operands, 1) << "its other operands are run A's";
  EXPECT_FLOAT_EQ(found[2].mean_db, 17.0f);
  for (const std::size_t index : {0u, 3u}) EXPECT_EQ(found[index].operands, 2) << "those in which any run differs";
  EXPECT_FLOAT_EQ(found[0].worst_db, 55.3f);
  EXPECT_TRUE(says(to_text(found[1]),
                   "31.4 dB at worst (layer 1, experts w2, x forward), 31.5 dB on average over 2 "
                   "operands in which the runs differ"))
      << to_text(found[1]);
}

TEST(OperandSqnr, OfRunsWithTheSameFormatsIsOfThoseInFewBits) {
  const HistoryPtr histories[] = {
      run_with("A", {operand(Gemm::expert_w1, "nvfp4", 20.1f), operand(Gemm::expert_w2, "nvfp4", 20.5f), kHeadInBf16})};
  const OperandSqnr found = operand_sqnr(histories, 2).front();
  EXPECT_EQ(found.choice, OperandChoice::scaled);
  EXPECT_FLOAT_EQ(found.worst_db, 20.1f);
  EXPECT_FLOAT_EQ(found.mean_db, 20.3f);
  const HistoryPtr in_bf16[] = {run_with("A", {kHeadInBf16})};
  EXPECT_EQ(operand_sqnr(in_bf16, 2).front().choice, OperandChoice::all);
  const HistoryPtr in_fp32[] = {run_with("A", {})};
  EXPECT_EQ(operand_sqnr(in_fp32, 2).front().operands, 0);
  EXPECT_TRUE(is_missing(operand_sqnr(in_fp32, 2).front().mean_db));
  EXPECT_EQ(to_text(operand_sqnr(in_fp32, 2).front()), "");
}

TEST(OperandSqnr, OfARunBesideOneInFp32IsOfAllThatItQuantizes) {
  const HistoryPtr runs[] = {run_with("A", {}), run_with("B", {operand(Gemm::expert_w1, "mxfp4_e2m1_rceil", 18.0f),
                                                               operand(Gemm::expert_w2, "mxfp4_e2m1_rceil", 17.0f)})};
  const std::vector<OperandSqnr> found = operand_sqnr(runs, 2);
  EXPECT_EQ(found[0].operands, 0);
  EXPECT_FLOAT_EQ(found[1].worst_db, 17.0f);
  EXPECT_FLOAT_EQ(found[1].mean_db, 17.5f);
}

TEST(OperandSqnr, ExactOperandsAreInNoMeanAndNaNIsNone) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const HistoryPtr runs[] = {
      run_with("A", {}), run_with("B", {operand(Gemm::expert_w1, "bf16", kInf), operand(Gemm::expert_w2, "bf16", 50),
                                        operand(Gemm::expert_w3, "bf16", std::nanf(""))})};
  const OperandSqnr found = operand_sqnr(runs, 2)[1];
  EXPECT_EQ(found.operands, 2);
  EXPECT_FLOAT_EQ(found.worst_db, 50);
  EXPECT_FLOAT_EQ(found.mean_db, 50);
  const HistoryPtr exact[] = {run_with("A", {}), run_with("B", {operand(Gemm::expert_w1, "bf16", kInf)})};
  EXPECT_EQ(operand_sqnr(exact, 2)[1].mean_db, kInf);
}

}  // namespace
}  // namespace moescope
