// Frames with random values in every field, and comparison of frames bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>
#include <string>
#include <vector>

#include "core/frame/describe.h"
#include "core/frame/frame.h"

namespace moescope {

struct SampleShape {
  int moe_layers = 2;  // layers 1, 2, ...
  int n_experts = 8;
  int ranks = 4;
  int ranks_per_node = 2;
  int operands = 6;  // quantized operands per layer
};

inline RunInfo sample_info(SampleShape shape) {
  RunInfo info;
  info.name = "sample";
  info.source = "trained here";
  info.config_toml = "name = \"sample\"\n";
  info.n_layers = shape.moe_layers + 1;
  for (int layer = 1; layer <= shape.moe_layers; ++layer) info.moe_layers.push_back(layer);
  info.n_experts = shape.n_experts;
  info.top_k = 2;
  info.tokens_per_step = 1024;
  info.ranks = shape.ranks;
  info.ranks_per_node = shape.ranks_per_node;
  info.dim = 64;
  info.window = 50;
  info.domains = {"prose", "code \"c\"", "DNA"};
  info.kernels = "OpenBLAS 0.3.21 SkylakeX, 16-lane-tiled loops, own tiles amx";
  return info;
}

inline std::vector<std::uint32_t> sample_counts(std::size_t size, std::uint32_t below, std::mt19937& rng) {
  std::vector<std::uint32_t> counts(size);
  for (auto& n : counts) n = 1 + rng() % below;
  return counts;
}

inline std::vector<float> sample_floats(std::size_t size, std::mt19937& rng) {
  std::vector<float> values(size);
  for (auto& v : values) v = std::uniform_real_distribution<float>(0, 1)(rng);
  return values;
}

// Visitor of describe() that fills the arrays of a row at random.
class RandomArrays {
 public:
  RandomArrays(const SampleShape& shape, std::mt19937& rng) : rng_(rng) {
    sizes_.set(Size::experts, shape.n_experts);
    sizes_.set(Size::domains, 3);
  }
  void size(int size, Size name, Column) { sizes_.set(name, size); }
  void bytes(const std::string& text, Column) { sizes_.set(Size::tokens, static_cast<int>(text.size())); }
  void array(std::vector<float>& values, Column, Extent extent) { values = sample_floats(size_of(extent), rng_); }
  void array(std::vector<std::uint32_t>& counts, Column, Extent extent) {
    const bool is_wide = extent.presence == Presence::required;  // so that counts of each width occur
    counts = sample_counts(size_of(extent), is_wide ? 100'000 : 300, rng_);
    const std::size_t n = sizes_[extent.rows];
    for (std::size_t i = 0; i < n && extent.is_symmetric; ++i)
      for (std::size_t j = 0; j < i; ++j) counts[i * n + j] = counts[j * n + i];
  }
  void array(std::vector<std::uint16_t>& experts, Column, Extent extent) {
    for (std::size_t i = 0; i < size_of(extent); ++i)
      experts.push_back(static_cast<std::uint16_t>(rng_() % sizes_[Size::experts]));
  }
  void bins(std::vector<std::uint32_t>& counts, Column) { counts = sample_counts(kHalfOctaves, 300, rng_); }
  void figures(auto& row, const auto& table) {
    for (const auto& figure : table) row.*figure.member = std::uniform_real_distribution<float>(0, 1)(rng_);
  }
  template <class Row>
  void nested(std::vector<Row>& rows, const char*) {
    for (Row& row : rows) describe(row, *this);
  }
  void nested(VolumeFrame& volume, const char*) { describe(volume, *this); }
  // The caller sets the other columns.
  void layer(const auto&...) {}
  void name(const auto&...) {}
  void text(const auto&...) {}
  void position(const auto&...) {}
  void count_bytes(const auto&...) {}
  void experts(const auto&...) {}

 private:
  std::size_t size_of(Extent extent) const { return sizes_[extent.rows] * sizes_[extent.columns]; }
  Sizes sizes_;
  std::mt19937& rng_;
};

inline TelemetryFrame sample_frame(std::int64_t step, SampleShape shape, std::mt19937& rng) {
  std::uniform_real_distribution<float> value(0, 1);
  TelemetryFrame frame;
  frame.step = step;
  frame.wall_s = 0.01 * static_cast<double>(step);
  frame.tokens = 1024 * (step + 1);
  for (const auto& field : kFrameFigures) frame.*field.member = value(rng);
  for (float& ms : frame.phase_ms) ms = value(rng);
  for (int layer = 1; layer <= shape.moe_layers; ++layer) {
    RouterFrame& router = frame.routers.emplace_back();
    router.layer = layer;
    router.volume.ranks = shape.ranks;
    router.volume.ranks_per_node = shape.ranks_per_node;
    RandomArrays arrays(shape, rng);
    describe(router, arrays);
    for (int i = 0; i < shape.operands; ++i) {
      QuantFrame& quant = frame.quants.emplace_back();
      quant.layer = layer;
      constexpr Gemm kExperts[] = {Gemm::expert_w1, Gemm::expert_w2, Gemm::expert_w3};
      quant.gemm = i == 4 ? Gemm::wkv_b : kExperts[i % 3];
      quant.operand = static_cast<OperandRole>(i / 3 % 3);
      quant.direction = static_cast<Direction>(i / 9 % 3 + i % 2);
      const auto formats = named_formats();
      const std::size_t place = frame.quants.size() + static_cast<std::size_t>(step);
      quant.format = i == 0 ? quant_format("e4m3") : quant_format(formats[place % formats.size()].format);
      for (const auto& field : kQuantFigures) quant.*field.member = value(rng);
      const int first = rng() % 240;
      for (int byte = first; byte < first + 12; ++byte) quant.e8m0_blocks[byte] = rng() % 5000;
    }
    for (auto* flips : {&frame.flips, &frame.rounding_flips}) {
      FlipFrame& flip = flips->emplace_back();
      flip.layer = layer;
      for (const auto& field : kFlipFigures) flip.*field.member = value(rng);
      for (auto& n : flip.margin_tokens) n = rng() % 400;
      for (auto& n : flip.margin_flipped) n = rng() % 40;
    }
    for (int i = 0; i < kNumRouterRoundings; ++i) {
      RouterRoundingFrame& rounding = frame.router_roundings.emplace_back();
      rounding.layer = layer;
      rounding.rounding = static_cast<RouterRounding>(i);
      for (const auto& field : kRouterRoundingFigures) rounding.*field.member = value(rng);
      for (auto& n : rounding.margin_tokens) n = rng() % 400;
      for (auto& n : rounding.margin_flipped) n = rng() % 40;
    }
  }
  for (int layer = -1; layer <= shape.moe_layers; ++layer) {
    for (const GradientGroup group : {static_cast<GradientGroup>((layer + 1) % 6), GradientGroup::all}) {
      GradientFrame& gradient = frame.gradients.emplace_back(GradientFrame{layer, group});
      for (const auto& field : kGradientFigures) gradient.*field.member = value(rng);
    }
  }
  return frame;
}

inline SpecialisationFrame sample_specialisation(int layer, SampleShape shape, std::mt19937& rng) {
  SpecialisationFrame special;
  special.layer = layer;
  RandomArrays arrays(shape, rng);
  describe(special, arrays);
  return special;
}

// Returns a text of random bytes with their routing; any byte may occur.
inline TokenFrame sample_text(TextKind kind, SampleShape shape, std::mt19937& rng) {
  TokenFrame text;
  text.kind = kind;
  for (std::size_t t = 20 + rng() % 9; t > 0; --t) text.text += static_cast<char>(rng());
  text.prompt = kind == TextKind::sample ? 7 : 0;
  text.domain = kind == TextKind::batch ? "code \"c\"" : "";
  for (int layer = 1; layer <= shape.moe_layers; ++layer) {
    TokenLayer& routed = text.layers.emplace_back();
    routed.layer = layer;
    routed.top_k = 2;
  }
  RandomArrays arrays(shape, rng);
  describe(text, arrays);
  text.loss_T[0] = kNoValue;
  return text;
}

inline void add_specialisation_and_texts(TelemetryFrame& frame, SampleShape shape, std::mt19937& rng) {
  for (int layer = 1; layer <= shape.moe_layers; ++layer)
    frame.specialisation.push_back(sample_specialisation(layer, shape, rng));
  for (const TextKind kind : {TextKind::probe, TextKind::batch}) frame.texts.push_back(sample_text(kind, shape, rng));
  if (frame.step % 2 == 0) frame.texts.push_back(sample_text(TextKind::sample, shape, rng));
}

// Compares bits, so that a NaN equals itself and kNoValue differs from other NaNs.
inline bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Visitor of describe() that writes the columns of a row and of the rows in it as text, floats as their bits.
class RowText {
 public:
  const std::string& str() const { return text_; }

  void layer(int layer, LayerColumn) { put("layer", layer); }
  void figures(const auto& row, const auto& table) {
    for (const auto& figure : table) put(figure.column, row.*figure.member);
  }
  void size(int size, Size, Column column) { put(column.name, size); }
  void position(int position, Column column) { put(column.name, position); }
  void flag(bool flag, Column column) { put(column.name, flag); }
  void name(auto value, Column column, auto) { put(column.name, static_cast<int>(value)); }
  void gemm(Gemm gemm) { put("gemm", static_cast<int>(gemm)); }
  void array(const auto& values, Column column, Extent) { list(column.name, values); }
  void bins(const auto& counts, Column column) { list(column.name, counts); }
  void scales(const auto& e8m0_blocks) { list("e8m0_blocks", e8m0_blocks); }
  void bytes(const std::string& bytes, Column column) { list(column.name, bytes); }
  void text(const std::string& text, Column column) { list(column.name, text); }
  void count_bytes(Column, const auto&...) {}
  void experts(const SpecialisationFrame&) {}  // belongs to the run
  template <class Row>
  void nested(const std::vector<Row>& rows, const char* key) {
    put(key, rows.size());
    for (const Row& row : rows) describe(row, *this);
  }
  void nested(const VolumeFrame& volume, const char*) { describe(volume, *this); }

 private:
  void put(const char* name, auto value) { list(name, std::array{value}); }
  void list(const char* name, const auto& values) {
    text_ += name;
    for (const auto value : values) {
      if constexpr (std::is_same_v<decltype(value), const float>)
        text_ += ' ' + std::to_string(std::bit_cast<std::uint32_t>(value));
      else
        text_ += ' ' + std::to_string(value);
    }
    text_ += '\n';
  }
  std::string text_;
};

template <class Row>
void expect_equal(const Row& a, const Row& b) {
  RowText text_of_a, text_of_b;
  describe(a, text_of_a);
  describe(b, text_of_b);
  EXPECT_EQ(text_of_a.str(), text_of_b.str());
}

inline void expect_equal(const TelemetryFrame& a, const TelemetryFrame& b) {
  EXPECT_EQ(a.run, b.run);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.wall_s, b.wall_s);
  EXPECT_EQ(a.tokens, b.tokens);
  for (const auto& field : kFrameFigures) EXPECT_TRUE(same_bits(a.*field.member, b.*field.member)) << field.column;
  for (int i = 0; i < kNumPhases; ++i) EXPECT_TRUE(same_bits(a.phase_ms[i], b.phase_ms[i])) << i;
  const auto expect_rows = [](const auto& rows_of_a, const auto& rows_of_b) {
    ASSERT_EQ(rows_of_a.size(), rows_of_b.size());
    for (std::size_t i = 0; i < rows_of_a.size(); ++i) expect_equal(rows_of_a[i], rows_of_b[i]);
  };
  expect_rows(a.routers, b.routers);
  expect_rows(a.quants, b.quants);
  expect_rows(a.flips, b.flips);
  expect_rows(a.rounding_flips, b.rounding_flips);
  expect_rows(a.gradients, b.gradients);
  expect_rows(a.router_roundings, b.router_roundings);
}

}  // namespace moescope
