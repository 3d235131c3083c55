#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "core/model/learner.h"
#include "core/model/optimizer.h"

namespace moescope {
namespace {

RunConfig muon_config() {
  RunConfig c;
  c.model.dim = 32;
  c.model.n_layers = 2;
  c.model.dense_inter = 48;
  c.model.n_heads = 2;
  c.model.q_lora_rank = 24;
  c.model.kv_lora_rank = 16;
  c.model.qk_nope_head_dim = 8;
  c.model.qk_rope_head_dim = 8;
  c.model.v_head_dim = 8;
  c.model.n_experts = 8;
  c.model.moe_inter = 32;
  c.data.batch = 2;
  c.data.seq = 32;
  c.optimizer.name = OptimizerName::muon;
  c.optimizer.warmup_steps = 0;
  return c;
}

TEST(Muon, HasEveryMatrixOfTheLayersOnceAndPerExpertAndHead) {
  const RunConfig config = muon_config();
  std::size_t arena = 0;
  const std::vector<ParameterTensor> tensors = parameter_layout(config.model, arena);
  std::vector<int> covered(arena), wanted(arena);
  for (const ParameterTensor& tensor : tensors)
    if (tensor.name.starts_with("layers.") && tensor.shape.size() > 1)
      for (std::size_t b = 0; b < tensor.blocks(); ++b)
        for (std::size_t i = 0; i < tensor.block_elements(); ++i) ++wanted[tensor.offset + b * tensor.outer_stride + i];
  std::map<std::pair<int, int>, int> shapes;
  int gates = 0, expert_matrices = 0;
  double before = INFINITY;
  for (const MuonMatrix& m : muon_matrices(config.model, tensors)) {
    for (int i = 0; i < m.rows * m.cols; ++i) ++covered[m.offset + static_cast<std::size_t>(i)];
    ++shapes[{m.rows, m.cols}];
    gates += m.tensor->is_gate();
    expert_matrices += m.expert >= 0;
    const double s = std::min(m.rows, m.cols), cost = s * s * (2.0 * std::max(m.rows, m.cols) + s);
    EXPECT_LE(cost, before);
    before = cost;
  }
  EXPECT_EQ(covered, wanted);
  EXPECT_EQ(gates, 1);
  EXPECT_EQ(expert_matrices, 8 * 3);
  EXPECT_EQ((shapes[{16, 24}]), 2 * 2);  // wq_b, one matrix for each head, in two layers
  EXPECT_EQ((shapes[{16, 16}]), 2 * 2);  // wkv_b, one matrix for each head
}

TEST(Muon, BringsSingularValuesNearOne) {
  std::mt19937 generator(3);
  std::normal_distribution<double> normal;
  for (const auto& [rows, cols] : {std::pair(8, 20), std::pair(20, 8), std::pair(1, 12)}) {
    std::vector<double> g(static_cast<std::size_t>(rows * cols)), x(g.size());
    for (double& v : g) v = normal(generator);
    orthogonalise<double>(false, {g.data(), rows, cols}, {x.data(), rows, cols});
    // If all singular values are in [0.6, 1.3], so is the norm of every row of X (of every column, if X is tall).
    const bool wide = rows <= cols;
    for (int i = 0; i < std::min(rows, cols); ++i) {
      double square = 0;
      for (int k = 0; k < std::max(rows, cols); ++k) {
        const double v = x[static_cast<std::size_t>(wide ? i * cols + k : k * cols + i)];
        square += v * v;
      }
      EXPECT_GT(std::sqrt(square), 0.6);
      EXPECT_LT(std::sqrt(square), 1.3);
    }
  }
}

TEST(Muon, StepsAreAsLargeAsTheirScaleSays) {
  EXPECT_NEAR(muon_ratio(MuonScale::match_rms_adamw, 64, 16), 1.6, 1e-12);
  EXPECT_NEAR(muon_ratio(MuonScale::original, 64, 16), 2, 1e-12);
  EXPECT_EQ(muon_ratio(MuonScale::original, 16, 64), 1);
  EXPECT_NEAR(muon_ratio(MuonScale::spectral, 16, 64), 0.5, 1e-12);
}

class MuonTraining : public testing::Test {
 protected:
  // Returns the largest change of each tensor in one step.
  std::map<std::string, float> moves(const RunConfig& config) {
    const auto data = open_dataset(config.data, config.seed);
    Learner<float> learner(config);
    const std::vector<float> before(learner.parameters.weights.begin(), learner.parameters.weights.end());
    PhaseClock clock;
    learner.step(data->batch(0), false, clock);
    std::map<std::string, float> largest;
    for (const ParameterTensor& tensor : learner.parameters.tensors()) {
      const std::vector<float> old_values = gather_tensor<float>(tensor, before),
                               is = learner.parameters.gather(tensor, learner.parameters.weights),
                               second = learner.parameters.gather(tensor, learner.parameters.moment2);
      for (std::size_t i = 0; i < old_values.size(); ++i)
        largest[tensor.name] = std::max(largest[tensor.name], std::fabs(is[i] - old_values[i]));
      const bool by_adamw = std::ranges::any_of(second, [](float v) { return v != 0; });
      EXPECT_NE(by_adamw, config.optimizer.name == OptimizerName::muon && is_moved_by_muon(tensor)) << tensor.name;
    }
    return largest;
  }
};

TEST_F(MuonTraining, MovesMatricesAndLeavesTheRestToAdamW) {
  RunConfig config = muon_config();
  const auto by_muon = moves(config);
  config.optimizer.name = OptimizerName::adamw;
  const auto by_adamw = moves(config);
  for (const auto& [tensor, largest] : by_muon) {
    EXPECT_GT(largest, 0) << tensor;
    const bool is_adamw_tensor =
        tensor == "output.weight" || tensor == "tok_embeddings.weight" || tensor.ends_with("norm.weight");
    EXPECT_EQ(largest == by_adamw.at(tensor), is_adamw_tensor) << tensor;
  }
}

TEST_F(MuonTraining, TheGateHasItsOwnRate) {
  constexpr auto kGate = "layers.1.moe.router.gate.weight";
  RunConfig config = muon_config();
  config.optimizer.weight_decay = 0;
  const float whole = moves(config).at(kGate);
  config.optimizer.router_lr_factor = 0.25;
  EXPECT_NEAR(moves(config).at(kGate), whole / 4, 1e-5f);
}

TEST_F(MuonTraining, LowersTheLossOfABatch) {
  for (const bool in_bf16 : {false, true}) {
    RunConfig config = muon_config();
    config.optimizer.muon_bf16 = in_bf16;
    const auto data = open_dataset(config.data, config.seed);
    Learner<float> learner(config);
    PhaseClock clock;
    double first = 0, last = 0;
    for (int step = 0; step < 30; ++step) {
      last = learner.step(data->batch(0), false, clock).losses.ce;
      if (step == 0) first = last;
    }
    EXPECT_LT(last, first - 1) << in_bf16;
  }
}

}  // namespace
}  // namespace moescope
