// QK-clip: on the same input, the largest scores of heads above the limit become the limit, and all others stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/model/learner.h"
#include "core/model/optimizer.h"
#include "core/model/text/dataset.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

class QkClip : public testing::TestWithParam<int> {  // q_lora_rank
 protected:
  QkClip() {
    config_.model.q_lora_rank = GetParam();
    config_.optimizer.lr = config_.optimizer.lr_min = 0;  // the weights change by clipping alone
    learner_ = std::make_unique<Learner<double>>(config_);
    batch_ = open_dataset(config_.data, config_.seed)->batch(0);
  }
  std::vector<double> forward() {
    PhaseClock clock;
    losses_ = learner_->forward(batch_, false, clock);
    learner_->backward(batch_, clock);
    return largest_scores_of_heads(learner_->model());
  }
  StepResult update() {
    PhaseClock clock;
    return learner_->update(losses_, clock);
  }

  RunConfig config_ = small_run();
  std::unique_ptr<Learner<double>> learner_;
  Batch batch_;
  Losses losses_;
};

// Only layer 0 gets the same input after the clipping.
TEST_P(QkClip, HeadsAboveTheLimitComeToIt) {
  const auto heads = static_cast<std::size_t>(config_.model.n_heads);
  const std::vector<double> before = forward();
  ASSERT_GE(heads, 2u);
  const auto [lowest, highest] =
      std::minmax_element(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(heads));
  ASSERT_GT(*lowest, 0);
  const double limit = (*lowest + *highest) / 2;
  learner_->config.optimizer.qk_clip = limit;
  const StepResult result = update();
  EXPECT_EQ(result.max_logit, std::ranges::max(before));
  const std::vector<double> after = forward();
  for (std::size_t head = 0; head < heads; ++head)
    EXPECT_NEAR(after[head], std::min(before[head], limit), 1e-12 * limit) << head;
}

// By hand for heads with the scores 1 and 4 and the limit 2. In the second head, queries and keys without rotation are
// multiplied by sqrt(1/2), and rotated queries by 1/2. Values, other heads and the key that all heads share stay.
TEST_P(QkClip, ScalesTheRowsOfThatHeadAlone) {
  const ModelConfig& m = config_.model;
  Parameters<double>& p = learner_->parameters;
  std::ranges::fill(p.weights, 1.0);
  std::vector<double> largest(static_cast<std::size_t>(m.n_layers * m.n_heads), 1.0);
  largest[1] = 4;
  clip_queries_and_keys<double>(m, largest, 2.0, p.weight_view);
  const LayerView<double>& layer = p.weight_view.layers[0];
  const int head_rows = m.qk_nope_head_dim + m.qk_rope_head_dim, key_rows = m.qk_nope_head_dim + m.v_head_dim;
  const Matrix<double> queries = m.q_lora_rank > 0 ? layer.wq_b : layer.wq;
  for (int row = 0; row < m.n_heads * head_rows; ++row) {
    const bool is_clipped = row / head_rows == 1, is_rotated = row % head_rows >= m.qk_nope_head_dim;
    const double factor = is_rotated ? 0.5 : std::sqrt(0.5);
    EXPECT_EQ(queries.at(row, 0), is_clipped ? factor : 1.0) << row;
    EXPECT_EQ(queries.at(row, queries.cols - 1), queries.at(row, 0)) << row;
  }
  for (int row = 0; row < m.n_heads * key_rows; ++row) {
    const bool clipped = row / key_rows == 1 && row % key_rows < m.qk_nope_head_dim;
    EXPECT_EQ(layer.wkv_b.at(row, 0), clipped ? std::sqrt(0.5) : 1.0) << row;
  }
  EXPECT_EQ(layer.wkv_a.at(0, 0), 1.0);
  EXPECT_EQ(p.weight_view.layers[1].wkv_b.at(0, 0), 1.0);
}

INSTANTIATE_TEST_SUITE_P(Queries, QkClip, testing::Values(0, 16));

}  // namespace
}  // namespace moescope
