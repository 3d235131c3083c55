// A training with portable products gives the same losses to the bit on every processor, which are those of the hashes
// here.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/model/learner.h"
#include "core/numerics/digest.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"
#include "tests/support/processors.h"

namespace moescope {
namespace {

constexpr int kSteps = 30;

// The sizes of the preset nano.
RunConfig portable_config(Recipe recipe) {
  RunConfig c;
  c.portable = true;
  c.model.dim = 64;
  c.model.n_layers = 3;
  c.model.dense_inter = 160;
  c.model.n_heads = 2;
  c.model.kv_lora_rank = 32;
  c.model.qk_nope_head_dim = c.model.qk_rope_head_dim = 16;
  c.model.v_head_dim = 24;
  c.model.n_experts = 8;
  c.model.moe_inter = 64;
  c.optimizer.lr = 4e-3;
  c.optimizer.warmup_steps = 20;
  c.optimizer.total_steps = 1000;
  c.precision.experts = c.precision.shared_experts = c.precision.dense_ffn = c.precision.attention = recipe;
  if (recipe != Recipe::fp32) c.precision.head = c.precision.router_gate = Recipe::bf16;
  c.data.batch = 4;
  c.data.seq = 64;
  return c;
}

// Settings that use functions which the others do not: tanh, ln(1 + x), Muon, noise, stored BF16.
RunConfig config_with_other_functions() {
  RunConfig c = portable_config(Recipe::bf16);
  c.router.score_func = ScoreFunc::sqrtsoftplus;
  c.router.balance_rule = BalanceRule::smebu;
  c.router.gate_noise = 0.01;
  c.router.aux_mode = AuxMode::sequence;
  c.router.aux_coeff = c.router.z_coeff = 1e-3;
  c.optimizer.name = OptimizerName::muon;
  c.precision.activations = c.optimizer.master_format = StoredFormat::bf16;
  return c;
}

std::string digest_of_losses(const RunConfig& config) {
  const PortableProducts products(config.portable);
  Learner<float> learner(config);
  const std::unique_ptr<Dataset> data = open_dataset(config.data, config.seed);
  PhaseClock clock;
  clock.start(Phase::other);
  std::vector<float> losses;
  for (int step = 0; step < kSteps; ++step)
    losses.push_back(static_cast<float>(learner.step(data->batch(step), false, clock).losses.ce));
  EXPECT_LT(losses.back(), 0.8f * losses.front());
  Digest digest;
  digest.add(losses);
  return digest.text();
}

struct PortableTraining {
  const char* name;
  RunConfig config;
  const char* digest;
};

class Portable : public testing::TestWithParam<PortableTraining> {};

TEST_P(Portable, LossesAreTheSameBitsOnEveryProcessor) {
  for_each_processor([] {
    if (hwy::SupportedTargets() == HWY_SCALAR) return;  // takes minutes
    EXPECT_EQ(digest_of_losses(GetParam().config), GetParam().digest);
  });
}

// The test above has one thread.
TEST_P(Portable, LossesAreTheSameBitsWithThreeThreads) {
  set_num_threads(3);
  EXPECT_EQ(digest_of_losses(GetParam().config), GetParam().digest);
  set_num_threads(0);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Portable,
    testing::Values(PortableTraining{"fp32", portable_config(Recipe::fp32), "54816cb8e07236cf"},
                    PortableTraining{"bf16", portable_config(Recipe::bf16), "921d7236946ac028"},
                    PortableTraining{"mxfp8", portable_config(Recipe::mxfp8_rceil), "1e353c4760d08693"},
                    PortableTraining{"mxfp4", portable_config(Recipe::mxfp4), "8aa0fdc44ee279ea"},
                    PortableTraining{"other_functions", config_with_other_functions(), "ed47e0f777ddf068"}),
    [](const auto& info) { return info.param.name; });

TEST(PortableProducts, OpenBlasMultipliesOutsideOfTheirScope) {
  EXPECT_FALSE(PortableProducts::in_use());
  {
    const PortableProducts portable(true);
    EXPECT_FALSE(has_matrix_unit());
    bool in_use_in_task[8] = {};
    parallel_for(8, [&](int task) { in_use_in_task[task] = PortableProducts::in_use(); });
    for (const bool in_use : in_use_in_task) EXPECT_TRUE(in_use);
    const PortableProducts fast(false);
    EXPECT_FALSE(PortableProducts::in_use());
  }
  EXPECT_FALSE(PortableProducts::in_use());
}

}  // namespace
}  // namespace moescope
