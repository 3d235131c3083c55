// Recordings of random shape with random figures, for tests of what the screen says about any recording. Figures that
// follow from the counts of a router are computed as in a training. Runs of one shape with other figures are
// comparable.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/frame/router_stats.h"
#include "core/frame/specialisation.h"
#include "core/recording/history/history.h"

namespace moescope {

class RandomRun {
 public:
  explicit RandomRun(std::uint64_t shape, std::uint64_t figures = 0) : random_(shape) {
    RunInfo info;
    info.name = "A";
    info.source = "a random run";
    const bool has_settings = one_of({0, 1}) == 1;
    info.n_layers = one_of({2, 4, 7});
    for (int layer = 1; layer < info.n_layers; ++layer) info.moe_layers.push_back(layer);
    info.n_experts = one_of({4, 8, 16, 64});
    info.top_k = std::min(one_of({1, 2, 4}), info.n_experts - 1);
    if (has_settings)
      info.config_toml = "name = \"A\"\n[model]\nn_experts = " + std::to_string(info.n_experts) +
                         "\n[router]\ntop_k = " + std::to_string(info.top_k) + "\n";
    info.tokens_per_step = one_of({64, 512, 4096});
    info.ranks = one_of({2, 4});
    info.ranks_per_node = one_of({1, 2});
    info.dim = 128;
    info.window = one_of({5, 50, 100});
    info.domains = {"prose", "code", "arithmetic"};
    info_ = info;
    for (std::size_t i = 0; i < info.moe_layers.size(); ++i) windows_.emplace_back(info.n_experts, info.window);
    history_ = std::make_shared<History>(info);
    const int steps = one_of({1, 3, 60, 130}), stride = one_of({1, 1, 1, 25});
    for (int i = 0; i < 200; ++i) probe_text_ += static_cast<char>('a' + whole(25));
    if (figures > 0) random_.seed(figures);
    loss_offset_ = 0.02 * normal();
    is_exact_ = one_of({0, 0, 0, 0, 0, 1}) == 1;
    for (int i = 0; i < steps; ++i)
      history_->append(frames_.emplace_back(
          std::make_shared<const TelemetryFrame>(frame(i * stride, i % static_cast<int>(kTables) == 0))));
  }
  std::shared_ptr<History> history() const { return history_; }
  // The newest frame up to `step`; that has the tables of specialisation and the probe text.
  const TelemetryFrame& frame_at(std::int64_t step) const {
    return **(std::ranges::upper_bound(frames_, step, {}, &TelemetryFrame::step) - 1);
  }
  const TelemetryFrame& tables_at(std::int64_t step) const {
    const auto next = std::ranges::upper_bound(frames_, step, {}, &TelemetryFrame::step);
    return *frames_[static_cast<std::size_t>(next - frames_.begin() - 1) / kTables * kTables];
  }
  const RunInfo& info() const { return info_; }
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

 private:
  static constexpr std::size_t kTables = 5;  // steps between frames with tables
  int one_of(std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random_)];
  }
  double normal() { return std::normal_distribution<double>()(random_); }
  std::uint32_t whole(std::uint32_t max) { return std::uniform_int_distribution<std::uint32_t>(0, max)(random_); }
  std::size_t experts() const { return static_cast<std::size_t>(info_.n_experts); }

  // Returns shares that sum to 1.
  std::vector<float> shares() {
    std::vector<float> values;
    double sum = 0;
    for (std::size_t e = 0; e < experts(); ++e) sum += values.emplace_back(static_cast<float>(0.01 + uniform()));
    for (float& value : values) value = static_cast<float>(static_cast<double>(value) / sum);
    return values;
  }
  std::vector<std::uint32_t> half_octaves() {
    std::vector<std::uint32_t> bins(kHalfOctaves);
    const std::uint32_t first = whole(kHalfOctaves - 5);
    for (std::uint32_t bin = first; bin < first + 4; ++bin) bins[bin] = whole(500);
    ++bins[first];
    return bins;
  }

  RouterFrame router(std::size_t place) {
    RouterFrame router;
    router.layer = info_.moe_layers[place];
    const double unevenness = 1.5 * uniform();
    const double fair = static_cast<double>(info_.tokens_per_step) * info_.top_k / info_.n_experts;
    for (std::size_t e = 0; e < experts(); ++e) {
      const double count = e % 5 == 3 && uniform() < 0.7 ? 0 : fair * std::exp(unevenness * normal());
      router.tokens_per_expert.push_back(static_cast<std::uint32_t>(count));
      router.expert_bias.push_back(static_cast<float>(0.1 * normal()));
    }
    ++router.tokens_per_expert.front();
    router.gate_mass = shares();
    router.score_mass = shares();
    router.score_entropy = static_cast<float>(uniform());
    router.margin = static_cast<float>(0.1 * uniform());
    router.score_chosen = half_octaves();
    router.score_rejected = half_octaves();
    router.margin_tokens = half_octaves();
    router.volume = volume();
    windows_[place].push(router.tokens_per_expert);
    fill_derived_figures(router, windows_[place]);
    return router;
  }

  VolumeFrame volume() {
    VolumeFrame volume;
    const int ranks = info_.ranks, nodes = (ranks + info_.ranks_per_node - 1) / info_.ranks_per_node;
    volume.ranks = ranks;
    volume.ranks_per_node = info_.ranks_per_node;
    volume.nodes_RN.assign(static_cast<std::size_t>(ranks * nodes), 0);
    for (int source = 0; source < ranks; ++source)
      for (int rank = 0; rank < ranks; ++rank) {
        const std::uint32_t distinct = 1 + whole(300);
        volume.copies_RR.push_back(distinct + whole(200));
        volume.distinct_RR.push_back(distinct);
        std::uint32_t& to_node =
            volume.nodes_RN[static_cast<std::size_t>(source * nodes + rank / info_.ranks_per_node)];
        to_node = std::max(to_node, distinct);
      }
    return volume;
  }

  QuantFrame quant(int layer, Gemm gemm, OperandRole operand, Direction direction) {
    QuantFrame quant;
    quant.layer = layer;
    quant.gemm = gemm;
    quant.operand = operand;
    quant.direction = direction;
    quant.format = quant_format("mxfp8_e4m3_rceil");
    const std::uint32_t first = 90 + whole(40), blocks = 1 + whole(9);
    for (std::uint32_t byte = first; byte < first + blocks; ++byte) quant.e8m0_blocks[byte] = 1 + whole(4000);
    quant.sqnr_db = static_cast<float>(5 + 50 * uniform());
    quant.relative_l2 = std::pow(10.0f, -quant.sqnr_db / 20);
    quant.underflow = static_cast<float>(0.2 * uniform());
    quant.clipped = static_cast<float>(0.2 * uniform());
    quant.amax = 1;
    return quant;
  }

  // Returns top_k different experts; low numbers are chosen more often.
  std::vector<std::size_t> choice() {
    std::vector<std::size_t> chosen;
    while (std::ssize(chosen) < info_.top_k) {
      const auto expert = static_cast<std::size_t>(std::pow(uniform(), 1.5) * static_cast<double>(experts()));
      if (std::ranges::find(chosen, expert) == chosen.end()) chosen.push_back(expert);
    }
    return chosen;
  }

  SpecialisationFrame specialisation(int layer) {
    constexpr int kTokens = 300;
    SpecialisationFrame special;
    special.layer = layer;
    special.together_EE.resize(experts() * experts());
    special.domain_DE.resize(info_.domains.size() * experts());
    special.byte_256E.resize(256 * experts());
    for (std::size_t e = 0; e < experts(); ++e) {
      double bias = -0.3 * uniform();
      for (int quantile = 0; quantile < kBiasShares; ++quantile)
        special.bias_for_share_EQ.push_back(static_cast<float>(bias += 0.001 + 0.03 * uniform()));
    }
    for (int token = 0; token < kTokens; ++token) {
      const std::vector<std::size_t> chosen = choice();
      const std::size_t domain = whole(static_cast<std::uint32_t>(info_.domains.size() - 1)), byte = whole(127);
      for (const std::size_t i : chosen) {
        ++special.domain_DE[domain * experts() + i];
        ++special.byte_256E[byte * experts() + i];
        for (const std::size_t j : chosen) ++special.together_EE[i * experts() + j];
      }
    }
    return special;
  }

  TokenFrame probe() {
    TokenFrame text;
    text.kind = TextKind::probe;
    text.text = probe_text_;
    text.loss_T.assign(text.text.size(), 1.0f);
    for (const int layer : info_.moe_layers) {
      TokenLayer& routed = text.layers.emplace_back();
      routed.layer = layer;
      routed.top_k = info_.top_k;
      for (std::size_t t = 0; t < text.text.size(); ++t)
        for (const std::size_t expert : choice()) {
          routed.experts_TK.push_back(static_cast<std::uint16_t>(expert));
          routed.scores_TK.push_back(static_cast<float>(uniform()));
        }
      routed.margin_T.assign(text.text.size(), 0.05f);
    }
    return text;
  }

  // Returns a share of tokens that an error changes.
  float changed() { return is_exact_ || one_of({0, 1, 1, 1}) == 0 ? 0 : static_cast<float>(0.3 * uniform()); }
  float snr_db() {
    return is_exact_ || one_of({0, 1, 1, 1}) == 0 ? std::numeric_limits<float>::infinity()
                                                  : static_cast<float>(60 * uniform());
  }
  FlipFrame flips(int layer) {
    FlipFrame flips;
    flips.layer = layer;
    flips.flip_rate = changed();
    flips.overlap = 1 - flips.flip_rate * static_cast<float>(uniform());
    return flips;
  }
  RouterRoundingFrame router_rounding(int layer, RouterRounding rounding) {
    RouterRoundingFrame frame;
    frame.layer = layer;
    frame.rounding = rounding;
    frame.changed = rounding == RouterRounding::none ? 0 : changed();
    frame.max_vio = static_cast<float>(3 * uniform());
    frame.bias_values = static_cast<float>(1 + whole(63));
    return frame;
  }
  void compare_with_others(TelemetryFrame& frame) {
    for (const int layer : info_.moe_layers) {
      frame.flips.push_back(flips(layer));
      frame.rounding_flips.push_back(flips(layer));
      for (int rounding = 0; rounding < kNumRouterRoundings; ++rounding)
        frame.router_roundings.push_back(router_rounding(layer, static_cast<RouterRounding>(rounding)));
    }
    GradientFrame all;
    all.snr_db = snr_db();
    all.pinned_snr_db = snr_db();
    all.cosine = all.pinned_cosine = static_cast<float>(uniform());
    frame.gradients.push_back(all);
    frame.fp32_kl = changed();
    frame.fp32_ratio_beyond_2 = changed();
    frame.fp32_any_layer_flipped = changed();
  }

  TelemetryFrame frame(int step, bool has_tables) {
    TelemetryFrame frame;
    frame.step = step;
    frame.tokens = (step + 1) * info_.tokens_per_step;
    frame.ce_loss = static_cast<float>(2 + 3 * std::exp(-step / 50.0) + loss_offset_ + 0.1 * normal());
    frame.grad_norm = static_cast<float>(uniform());
    for (std::size_t place = 0; place < info_.moe_layers.size(); ++place) {
      const int layer = info_.moe_layers[place];
      frame.routers.push_back(router(place));
      if (has_tables) frame.specialisation.push_back(specialisation(layer));
      frame.quants.push_back(quant(layer, Gemm::expert_w1, OperandRole::x, Direction::forward));
      frame.quants.push_back(quant(layer, Gemm::expert_w2, OperandRole::dy, Direction::dgrad));
    }
    if (has_tables) frame.texts.push_back(probe());
    compare_with_others(frame);
    return frame;
  }

  std::mt19937_64 random_;
  RunInfo info_;
  std::vector<LoadWindow> windows_;
  std::string probe_text_;
  double loss_offset_ = 0;  // of all steps
  bool is_exact_ = false;   // the run equals the runs that it is compared with
  std::vector<std::shared_ptr<const TelemetryFrame>> frames_;
  std::shared_ptr<History> history_;
};

}  // namespace moescope
