// A made-up run for tests and benchmarks of the screen, with plausible curves but without training. The seed determines
// every number. The program itself never shows it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>

#include "core/frame/router_stats.h"
#include "core/frame/specialisation.h"
#include "core/recording/history/history.h"

namespace moescope {

struct SyntheticShape {
  int layers = 5;  // layer 0 is dense
  int experts = 16;
  int top_k = 2;
  int ranks = 8;
  int ranks_per_node = 4;
  int dim = 128;
  std::int64_t tokens = 1024;
  int window = 100;
  int quant_every = 1;  // 0: no quantization
  bool scalars_only = false;
  int specialise_every = 0;  // steps between co-activation counts and routed texts; 0: none
};

class SyntheticRun {
 public:
  explicit SyntheticRun(SyntheticShape shape, std::size_t budget = std::size_t{512} << 20)
      : shape_(shape), history_(std::make_shared<History>(info(), budget)) {}

  std::shared_ptr<History> history() const { return history_; }

  std::shared_ptr<const TelemetryFrame> next() { return std::make_shared<TelemetryFrame>(frame(next_++)); }

  void append(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) history_->append(next());
  }

  void restartAt(std::int64_t step) { next_ = step; }  // the next frame replaces this step and all later ones

 private:
  RunInfo info() const {
    RunInfo info;
    info.name = "A";
    info.source = "a made-up run";
    info.config_toml = "name = \"A\"\n";
    info.n_layers = shape_.layers;
    for (int layer = 1; layer < shape_.layers; ++layer) info.moe_layers.push_back(layer);
    info.n_experts = shape_.experts;
    info.top_k = shape_.top_k;
    info.tokens_per_step = shape_.tokens;
    info.ranks = shape_.ranks;
    info.ranks_per_node = shape_.ranks_per_node;
    info.dim = shape_.dim;
    info.window = shape_.window;
    if (shape_.specialise_every > 0) info.domains = {"prose", "code", "arithmetic", "json"};
    return info;
  }

  double uniform() {  // [0, 1)
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  double noise() { return uniform() + uniform() + uniform() - 1.5; }  // roughly normal, standard deviation 1/2

  // Returns a load that is uneven at first, becomes more even as if by a bias, and drifts.
  RouterFrame router(int layer, std::int64_t step) {
    const int experts = shape_.experts;
    RouterFrame router;
    router.layer = layer;
    router.tokens_per_expert.resize(experts);
    router.expert_bias.resize(experts);
    router.gate_mass.resize(experts);
    const double uneven = (layer < 3 ? 1.6 : 0.9) * std::exp(-static_cast<double>(step) / 260) + 0.12;
    const double fair = static_cast<double>(shape_.tokens) * shape_.top_k / experts;
    for (int e = 0; e < experts; ++e) {
      const double taste = std::sin(e * 12.9898 + layer * 78.233) + 0.7 * std::sin(e * 3.7 + layer + step * 0.004);
      double load = fair * std::exp(uneven * taste) + 2 * std::sqrt(fair) * noise();
      if (e == 5 && layer == 2 && step < 180) load = 0;
      router.tokens_per_expert[e] = static_cast<std::uint32_t>(std::max(0.0, load));
      router.expert_bias[e] = static_cast<float>(-0.1 * taste * (1 - std::exp(-static_cast<double>(step) / 260)));
    }
    const double total = std::accumulate(router.tokens_per_expert.begin(), router.tokens_per_expert.end(), 0.0);
    for (int e = 0; e < experts; ++e)
      router.gate_mass[e] = static_cast<float>(router.tokens_per_expert[e] / std::max(1.0, total));
    router.max_vio = max_vio(router.tokens_per_expert);
    router.max_vio_window = static_cast<float>(router.max_vio * (0.5 + 0.05 * noise()));
    RouterFrame derived;
    derived.tokens_per_expert = router.tokens_per_expert;
    fill_derived_figures(derived, LoadWindow(experts, 1));
    router.cv = derived.cv;
    router.entropy_norm = entropy_norm(router.tokens_per_expert);
    router.dead_fraction = step < 180 && layer == 2 ? 1.0f / experts : 0.0f;
    router.margin = 0.05f;
    router.score_entropy =
        static_cast<float>(std::log(experts) * (0.98 - 0.1 * (1 - std::exp(-static_cast<double>(step) / 900))));
    router.aux_loss = router.z_loss = 0;
    router.mutual_information = static_cast<float>(0.4 * (1 - std::exp(-static_cast<double>(step) / 900)));
    for (int bin = 0; bin < kHalfOctaves; ++bin) {
      const auto hump = [bin](double centre, double width, double height) {
        return static_cast<std::uint32_t>(height * std::exp(-(bin - centre) * (bin - centre) / (2 * width * width)));
      };
      router.score_chosen.push_back(hump(38, 1.2, 400));
      router.score_rejected.push_back(hump(36 - 2 * (1 - std::exp(-static_cast<double>(step) / 900)), 2, 3000));
      router.margin_tokens.push_back(hump(28, 3, 150));
    }
    if (shape_.ranks > 0) router.volume = volume(router);
    return router;
  }

  VolumeFrame volume(const RouterFrame& router) {
    VolumeFrame volume;
    const int ranks = shape_.ranks, nodes = (ranks + shape_.ranks_per_node - 1) / shape_.ranks_per_node;
    volume.ranks = ranks;
    volume.ranks_per_node = shape_.ranks_per_node;
    volume.nodes_RN.assign(static_cast<std::size_t>(ranks) * nodes, 0);
    for (int s = 0; s < ranks; ++s)
      for (int d = 0; d < ranks; ++d) {
        double arriving = 0;
        for (int e = d * shape_.experts / ranks; e < (d + 1) * shape_.experts / ranks; ++e)
          arriving += router.tokens_per_expert[e];
        const double copies = std::max(0.0, arriving / ranks * (1 + 0.1 * noise()));
        volume.copies_RR.push_back(static_cast<std::uint32_t>(copies));
        volume.distinct_RR.push_back(static_cast<std::uint32_t>(copies * 0.82));
        volume.nodes_RN[static_cast<std::size_t>(s) * nodes + d / shape_.ranks_per_node] +=
            static_cast<std::uint32_t>(copies * 0.6);
      }
    return volume;
  }

  QuantFrame quant(int layer, std::int64_t step, Gemm gemm, OperandRole operand, Direction direction) {
    QuantFrame quant;
    quant.layer = layer;
    quant.gemm = gemm;
    quant.operand = operand;
    quant.direction = direction;
    quant.format = quant_format("mxfp8_e4m3_rceil");
    double drift = operand == OperandRole::w ? -11 : -7;
    if (operand == OperandRole::dy) drift = -14 - 2 * std::log10(1 + step);
    const double centre = 127 + drift + 0.2 * layer, width = operand == OperandRole::w ? 0.8 : 1.9;
    for (int byte = 0; byte < 255; ++byte) {
      const double z = (byte - centre) / width;
      quant.e8m0_blocks[byte] = static_cast<std::uint32_t>(4096 * std::exp(-z * z / 2) * (1 + 0.2 * noise()));
    }
    quant.amax = static_cast<float>(std::exp2(drift + 8));
    quant.sqnr_db = static_cast<float>(31.5 - (operand == OperandRole::dy ? 3.5 : 0) - 0.3 * layer + 0.4 * noise());
    quant.relative_l2 = std::pow(10.0f, -quant.sqnr_db / 20);
    quant.cosine = 1 - quant.relative_l2 * quant.relative_l2 / 2;
    quant.underflow = operand == OperandRole::x ? 0.0007f : 0.0f;
    if (operand == OperandRole::dy) quant.underflow = 0.02f * layer;
    quant.clipped = operand == OperandRole::w ? 0.0f : 0.00008f * layer;
    quant.clipped_blocks = quant.clipped * 20;
    quant.crest = 2.6f;
    return quant;
  }

  // Returns counts in which teams of four experts are often chosen together and prefer one domain each.
  SpecialisationFrame specialisation(int layer) {
    const auto experts = static_cast<std::size_t>(shape_.experts);
    SpecialisationFrame special;
    special.layer = layer;
    special.together_EE.resize(experts * experts);
    special.byte_256E.assign(256 * experts, 3);
    special.domain_DE.assign(kDomains * experts, 5);
    const auto team = [&](std::size_t e) { return (e * 7 + static_cast<std::size_t>(layer)) % experts / 4; };
    for (std::size_t i = 0; i < experts; ++i) {
      special.domain_DE[team(i) % kDomains * experts + i] = 40;
      for (int q = 0; q < kBiasShares; ++q)
        special.bias_for_share_EQ.push_back(0.02f * static_cast<float>(q) - 0.16f + 0.01f * static_cast<float>(i % 5));
      for (std::size_t j = i; j < experts; ++j) {
        double together = 500;
        if (i != j) together = team(i) == team(j) ? 120 + 40 * uniform() : 9 * uniform();
        special.together_EE[i * experts + j] = special.together_EE[j * experts + i] =
            static_cast<std::uint32_t>(together);
      }
    }
    return special;
  }

  TokenFrame text(TextKind kind) {
    TokenFrame text;
    text.kind = kind;
    while (text.text.size() < 512) text.text += "for (int i = 0; i < n; ++i) sum += x[i] * w[i];  // 12 + 30 = 42\n";
    text.text.resize(512);
    text.loss_T.assign(text.text.size(), 1.2f);
    for (int layer = 1; layer < shape_.layers; ++layer) {
      TokenLayer& routed = text.layers.emplace_back();
      routed.layer = layer;
      routed.top_k = shape_.top_k;
      for (std::size_t t = 0; t < text.text.size(); ++t)
        for (int k = 0; k < shape_.top_k; ++k) {
          routed.experts_TK.push_back(
              static_cast<std::uint16_t>((static_cast<unsigned char>(text.text[t]) * 5 + k) % shape_.experts));
          routed.scores_TK.push_back(static_cast<float>(0.9 / (k + 1) + 0.1 * uniform()));
        }
      routed.margin_T.assign(text.text.size(), 0.05f);
    }
    return text;
  }

  TelemetryFrame frame(std::int64_t step) {
    TelemetryFrame frame;
    const double t = static_cast<double>(step);
    frame.step = step;
    frame.wall_s = 0.05 * t;
    frame.tokens = (step + 1) * shape_.tokens;
    frame.ce_loss = static_cast<float>(1.25 + 4.3 * std::exp(-t / 120) + 0.6 * std::exp(-t / 900) + 0.09 * noise());
    frame.grad_norm = static_cast<float>(0.4 + 6 * std::exp(-t / 60) + 0.15 * std::abs(noise()));
    frame.lr = static_cast<float>(3e-3 * std::min(1.0, (t + 1) / 50));
    frame.tokens_per_s = static_cast<float>(21000 + 900 * noise());
    frame.phase_ms[static_cast<int>(Phase::experts)] = static_cast<float>(1000 * shape_.tokens / frame.tokens_per_s);
    if (shape_.scalars_only) return frame;
    for (int layer = 1; layer < shape_.layers; ++layer) frame.routers.push_back(router(layer, step));
    if (shape_.specialise_every > 0 && step % shape_.specialise_every == 0) {
      for (int layer = 1; layer < shape_.layers; ++layer) frame.specialisation.push_back(specialisation(layer));
      for (const TextKind kind : {TextKind::probe, TextKind::batch}) frame.texts.push_back(text(kind));
    }
    if (shape_.quant_every > 0 && step % shape_.quant_every == 0)
      for (int layer = 1; layer < shape_.layers; ++layer)
        for (const Gemm weight : {Gemm::expert_w1, Gemm::expert_w2, Gemm::expert_w3}) {
          frame.quants.push_back(quant(layer, step, weight, OperandRole::x, Direction::forward));
          frame.quants.push_back(quant(layer, step, weight, OperandRole::w, Direction::forward));
          frame.quants.push_back(quant(layer, step, weight, OperandRole::dy, Direction::dgrad));
          frame.quants.push_back(quant(layer, step, weight, OperandRole::w, Direction::dgrad));
          frame.quants.push_back(quant(layer, step, weight, OperandRole::x, Direction::wgrad));
          frame.quants.push_back(quant(layer, step, weight, OperandRole::dy, Direction::wgrad));
        }
    return frame;
  }

  static constexpr std::size_t kDomains = 4;
  SyntheticShape shape_;
  std::shared_ptr<History> history_;
  std::int64_t next_ = 0;
  std::uint64_t state_ = 0x9e3779b97f4a7c15ull;
};

}  // namespace moescope
