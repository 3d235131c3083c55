// Blocks that another program's training sampled, in the markers of its log.
#include <gtest/gtest.h>

#include <bit>

#include "core/files/text/text_escape.h"
#include "core/model/layers/sampled_blocks.h"

namespace moescope {
namespace {

constexpr OperandPlace kPlace{2, Gemm::expert_w2, OperandRole::dy, Direction::dgrad};

Marker marker_of(const std::string& text) {
  Marker marker{0, 40, kOperandsMarker, text};
  marker.key = place_text(kPlace);
  return marker;
}

template <class T>
std::string encoded(const std::vector<T>& values) {
  return base64url({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

std::optional<SampledBlocks> read(const std::string& text, std::int64_t step = 40) {
  RunInfo run;
  run.name = "log";
  const std::vector<Marker> markers = {marker_of(text)};
  return sampled_blocks(markers, run, kPlace, step);
}

TEST(SampledBlocks, AreACapturedOperandInTheFormatOfTheLog) {
  const std::vector<float> values = {1, -2, 0.3f, 448, 0, -0.0f};
  const auto blocks = read(R"({"format": "mxfp8_e5m2_floor", "what_if": {"nvfp4": 20.5, "bf16": null}, "cols": 3,
                              "dtype": "f32", "values": ")" +
                           encoded(values) + "\"}");
  ASSERT_TRUE(blocks);
  EXPECT_EQ(blocks->operand->values, values);
  EXPECT_EQ(blocks->operand->rows, 2u);
  EXPECT_EQ(blocks->operand->format, mx_format(ElementFormat::e5m2, ScaleRule::floor));
  EXPECT_EQ(blocks->operand->place, kPlace);
  EXPECT_EQ(blocks->operand->step, 40);
  EXPECT_EQ(blocks->operand->run_name, "log");
  EXPECT_EQ(blocks->operand->sums.blocks, 2u);
  EXPECT_EQ(blocks->operand->sums.amax, 448);
  EXPECT_FALSE(blocks->is_stored);
  EXPECT_EQ(blocks->other_sqnr_db, (std::vector<std::pair<std::string, double>>{{"nvfp4", 20.5}}));
}

TEST(SampledBlocks, OfBf16AreExact) {
  const std::vector<Bf16> values = {0x3f80, 0xc000};  // 1 and -2
  const auto blocks =
      read(R"({"format": "e4m3", "stored": true, "cols": 2, "dtype": "bf16", "values": ")" + encoded(values) + "\"}");
  ASSERT_TRUE(blocks);
  EXPECT_EQ(blocks->operand->values, (std::vector<float>{1, -2}));
  EXPECT_TRUE(blocks->is_stored);
  EXPECT_EQ(blocks->operand->format, OperandFormat{}) << "the rule of the scale is unknown";
}

TEST(SampledBlocks, UnreadableOnesAreNone) {
  const std::string one = encoded(std::vector<float>{1});
  EXPECT_TRUE(read(R"({"format": "bf16", "cols": 1, "dtype": "f32", "values": ")" + one + "\"}"));
  EXPECT_FALSE(read(R"({"format": "bf16", "cols": 1, "dtype": "f32", "values": ")" + one + "\"}", 41));
  for (const std::string text : {"", "7", "{}", R"({"format": 3, "cols": 1, "dtype": "f32", "values": "AACAPw"})",
                                 R"({"format": "bf16", "cols": 0, "dtype": "f32", "values": "AACAPw"})",
                                 R"({"format": "bf16", "cols": -1, "dtype": "f32", "values": "AACAPw"})",
                                 R"({"format": "bf16", "cols": 2, "dtype": "f32", "values": "AACAPw"})",
                                 R"({"format": "bf16", "cols": 1, "dtype": "f32", "values": "AACA"})",
                                 R"({"format": "bf16", "cols": 1, "dtype": "f32", "values": "%"})",
                                 R"({"format": "bf16", "cols": 1, "dtype": "f32", "values": ""})",
                                 R"({"format": "bf16", "cols": 1, "dtype": "f32", "values": "AACAPw", "stored": "x"})"})
    EXPECT_FALSE(read(text)) << text;
}

}  // namespace
}  // namespace moescope
