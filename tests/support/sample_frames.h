// Frames with random values in every field, and comparison of frames bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "core/frame/figures.h"
#include "core/frame/frame.h"
#include "core/frame/specialisation.h"

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
    for (const auto& field : kRouterFigures) router.*field.member = value(rng);
    router.tokens_per_expert = sample_counts(shape.n_experts, 300, rng);
    router.expert_bias = sample_floats(shape.n_experts, rng);
    router.score_mass = sample_floats(shape.n_experts, rng);
    router.gate_mass = sample_floats(shape.n_experts, rng);
    router.score_chosen = sample_counts(kHalfOctaves, 300, rng);
    router.score_rejected = sample_counts(kHalfOctaves, 300, rng);
    router.margin_tokens = sample_counts(kHalfOctaves, 300, rng);
    router.volume.ranks = shape.ranks;
    router.volume.ranks_per_node = shape.ranks_per_node;
    const std::size_t matrix = static_cast<std::size_t>(shape.ranks) * shape.ranks;
    router.volume.copies_RR = sample_counts(matrix, 100'000, rng);
    router.volume.distinct_RR = sample_counts(matrix, 200, rng);
    const int nodes = (shape.ranks + shape.ranks_per_node - 1) / shape.ranks_per_node;
    router.volume.nodes_RN = sample_counts(static_cast<std::size_t>(shape.ranks) * nodes, 200, rng);
    for (int i = 0; i < shape.operands; ++i) {
      QuantFrame& quant = frame.quants.emplace_back();
      quant.layer = layer;
      constexpr Gemm kExperts[] = {Gemm::expert_w1, Gemm::expert_w2, Gemm::expert_w3};
      quant.gemm = i == 4 ? Gemm::wkv_b : kExperts[i % 3];
      quant.operand = static_cast<OperandRole>(i / 3 % 3);
      quant.direction = static_cast<Direction>(i / 9 % 3 + i % 2);
      quant.format = "e4m3";
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
  const auto experts = static_cast<std::size_t>(shape.n_experts);
  SpecialisationFrame special;
  special.layer = layer;
  special.domain_DE = sample_counts(3 * experts, 100'000, rng);
  special.together_EE = sample_counts(experts * experts, 1000, rng);
  for (std::size_t i = 0; i < experts; ++i)
    for (std::size_t j = 0; j < i; ++j) special.together_EE[i * experts + j] = special.together_EE[j * experts + i];
  special.byte_256E = sample_counts(256 * experts, 200, rng);
  special.weight_norm_E = sample_floats(shape.n_experts, rng);
  special.weight_sqnr_E = sample_floats(shape.n_experts, rng);
  special.gradient_norm_E = sample_floats(shape.n_experts, rng);
  special.update_norm_E = sample_floats(shape.n_experts, rng);
  special.bias_for_share_EQ = sample_floats(shape.n_experts * kBiasShares, rng);
  return special;
}

// Returns a text of random bytes with their routing; any byte may occur.
inline TokenFrame sample_text(TextKind kind, SampleShape shape, std::mt19937& rng) {
  TokenFrame text;
  text.kind = kind;
  for (std::size_t t = 20 + rng() % 9; t > 0; --t) text.text += static_cast<char>(rng());
  text.prompt = kind == TextKind::sample ? 7 : 0;
  text.domain = kind == TextKind::batch ? "code \"c\"" : "";
  text.loss_T = sample_floats(text.text.size(), rng);
  text.loss_T[0] = kNoValue;
  for (int layer = 1; layer <= shape.moe_layers; ++layer) {
    TokenLayer& routed = text.layers.emplace_back();
    routed.layer = layer;
    routed.top_k = 2;
    for (std::size_t i = 0; i < 2 * text.text.size(); ++i)
      routed.experts_TK.push_back(static_cast<std::uint16_t>(rng() % static_cast<unsigned>(shape.n_experts)));
    routed.scores_TK = sample_floats(2 * text.text.size(), rng);
    routed.margin_T = sample_floats(text.text.size(), rng);
  }
  return text;
}

inline void add_specialisation_and_texts(TelemetryFrame& frame, SampleShape shape, std::mt19937& rng) {
  for (int layer = 1; layer <= shape.moe_layers; ++layer)
    frame.specialisation.push_back(sample_specialisation(layer, shape, rng));
  for (const TextKind kind : {TextKind::probe, TextKind::batch}) frame.texts.push_back(sample_text(kind, shape, rng));
  if (frame.step % 2 == 0) frame.texts.push_back(sample_text(TextKind::sample, shape, rng));
}

// Compare bits, so that a NaN equals itself and kNoValue differs from other NaNs.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) { return same(x, y); });
}

inline void expect_equal(const RouterFrame& a, const RouterFrame& b) {
  EXPECT_EQ(a.layer, b.layer);
  for (const auto& field : kRouterFigures) EXPECT_TRUE(same(a.*field.member, b.*field.member)) << field.column;
  EXPECT_EQ(a.tokens_per_expert, b.tokens_per_expert);
  EXPECT_TRUE(same(a.expert_bias, b.expert_bias));
  EXPECT_TRUE(same(a.score_mass, b.score_mass));
  EXPECT_TRUE(same(a.gate_mass, b.gate_mass));
  EXPECT_EQ(a.score_chosen, b.score_chosen);
  EXPECT_EQ(a.score_rejected, b.score_rejected);
  EXPECT_EQ(a.margin_tokens, b.margin_tokens);
  EXPECT_EQ(a.volume.ranks, b.volume.ranks);
  EXPECT_EQ(a.volume.ranks_per_node, b.volume.ranks_per_node);
  EXPECT_EQ(a.volume.copies_RR, b.volume.copies_RR);
  EXPECT_EQ(a.volume.distinct_RR, b.volume.distinct_RR);
  EXPECT_EQ(a.volume.nodes_RN, b.volume.nodes_RN);
}

inline void expect_equal(const QuantFrame& a, const QuantFrame& b) {
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.gemm, b.gemm);
  EXPECT_EQ(a.operand, b.operand);
  EXPECT_EQ(a.direction, b.direction);
  EXPECT_EQ(a.format, b.format);
  EXPECT_EQ(a.e8m0_blocks, b.e8m0_blocks);
  for (const auto& field : kQuantFigures) EXPECT_TRUE(same(a.*field.member, b.*field.member)) << field.column;
}

inline void expect_equal(const FlipFrame& a, const FlipFrame& b) {
  EXPECT_EQ(a.layer, b.layer);
  for (const auto& field : kFlipFigures) EXPECT_TRUE(same(a.*field.member, b.*field.member)) << field.column;
  EXPECT_EQ(a.margin_tokens, b.margin_tokens);
  EXPECT_EQ(a.margin_flipped, b.margin_flipped);
}

inline void expect_equal(const GradientFrame& a, const GradientFrame& b) {
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.group, b.group);
  for (const auto& field : kGradientFigures) EXPECT_TRUE(same(a.*field.member, b.*field.member)) << field.column;
}

inline void expect_equal(const RouterRoundingFrame& a, const RouterRoundingFrame& b) {
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.rounding, b.rounding);
  for (const auto& field : kRouterRoundingFigures) EXPECT_TRUE(same(a.*field.member, b.*field.member)) << field.column;
  EXPECT_EQ(a.margin_tokens, b.margin_tokens);
  EXPECT_EQ(a.margin_flipped, b.margin_flipped);
}

inline void expect_equal(const SpecialisationFrame& a, const SpecialisationFrame& b) {
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.domain_DE, b.domain_DE);
  EXPECT_EQ(a.together_EE, b.together_EE);
  EXPECT_EQ(a.byte_256E, b.byte_256E);
  EXPECT_TRUE(same(a.weight_norm_E, b.weight_norm_E));
  EXPECT_TRUE(same(a.weight_sqnr_E, b.weight_sqnr_E));
  EXPECT_TRUE(same(a.gradient_norm_E, b.gradient_norm_E));
  EXPECT_TRUE(same(a.update_norm_E, b.update_norm_E));
  EXPECT_TRUE(same(a.bias_for_share_EQ, b.bias_for_share_EQ));
}

inline void expect_equal(const TokenFrame& a, const TokenFrame& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.prompt, b.prompt);
  EXPECT_EQ(a.domain, b.domain);
  EXPECT_TRUE(same(a.loss_T, b.loss_T));
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_EQ(a.layers[i].layer, b.layers[i].layer);
    EXPECT_EQ(a.layers[i].top_k, b.layers[i].top_k);
    EXPECT_EQ(a.layers[i].experts_TK, b.layers[i].experts_TK);
    EXPECT_TRUE(same(a.layers[i].scores_TK, b.layers[i].scores_TK));
    EXPECT_TRUE(same(a.layers[i].margin_T, b.layers[i].margin_T));
  }
}

inline void expect_equal(const TelemetryFrame& a, const TelemetryFrame& b) {
  EXPECT_EQ(a.run, b.run);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.wall_s, b.wall_s);
  EXPECT_EQ(a.tokens, b.tokens);
  for (const auto& field : kFrameFigures) EXPECT_TRUE(same(a.*field.member, b.*field.member)) << field.column;
  for (int i = 0; i < kNumPhases; ++i) EXPECT_TRUE(same(a.phase_ms[i], b.phase_ms[i])) << i;
  ASSERT_EQ(a.routers.size(), b.routers.size());
  for (std::size_t i = 0; i < a.routers.size(); ++i) expect_equal(a.routers[i], b.routers[i]);
  ASSERT_EQ(a.quants.size(), b.quants.size());
  for (std::size_t i = 0; i < a.quants.size(); ++i) expect_equal(a.quants[i], b.quants[i]);
  ASSERT_EQ(a.flips.size(), b.flips.size());
  for (std::size_t i = 0; i < a.flips.size(); ++i) expect_equal(a.flips[i], b.flips[i]);
  ASSERT_EQ(a.rounding_flips.size(), b.rounding_flips.size());
  for (std::size_t i = 0; i < a.rounding_flips.size(); ++i) expect_equal(a.rounding_flips[i], b.rounding_flips[i]);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (std::size_t i = 0; i < a.gradients.size(); ++i) expect_equal(a.gradients[i], b.gradients[i]);
  ASSERT_EQ(a.router_roundings.size(), b.router_roundings.size());
  for (std::size_t i = 0; i < a.router_roundings.size(); ++i)
    expect_equal(a.router_roundings[i], b.router_roundings[i]);
}

}  // namespace moescope
