// Every backward pass against central differences, in double precision.
//
// For a layer, L = sum r . y with fixed random r, so dL/dy = r; then dL/dv must equal (L(v + h) - L(v - h)) / 2h for
// inputs and weights v. The step's error is about h^2, rounding about 1e-16 / h.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "core/model/layers/feed_forward.h"
#include "core/model/layers/latent_attention.h"
#include "core/model/layers/loss.h"
#include "core/model/layers/rms_norm.h"
#include "core/model/layers/rope.h"
#include "core/model/learner.h"
#include "core/model/moe/dispatch.h"
#include "core/model/moe/experts.h"
#include "core/model/moe/moe_layer.h"
#include "core/model/moe/router.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-8;  // relative to the gradient, but absolute for gradients below 1

std::vector<double> random_values(std::size_t count, const char* purpose, double scale = 1) {
  const RandomStream random(7, purpose);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = scale * random.normal(i);
  return values;
}

double weighted_sum(const std::vector<double>& r, const double* y) {
  double sum = 0;
  for (std::size_t i = 0; i < r.size(); ++i) sum += r[i] * y[i];
  return sum;
}

// Compares `gradient` of `values` with differences of `loss`, at about `samples` evenly spaced entries.
void expect_gradient(const char* what, std::span<double> values, std::span<const double> gradient,
                     const std::function<double()>& loss, std::size_t samples = 40) {
  const std::size_t stride = std::max<std::size_t>(1, values.size() / samples);
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const double saved = values[i];
    values[i] = saved + kStep;
    const double above = loss();
    values[i] = saved - kStep;
    const double below = loss();
    values[i] = saved;
    const double difference = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient[i], difference, kTolerance * std::max(1.0, std::fabs(difference))) << what << " [" << i << "]";
  }
}

TEST(Gradients, RmsNorm) {
  constexpr int kRows = 70, kDim = 20, kStride = 23;
  std::vector<double> x = random_values(kRows * kStride, "x"), w = random_values(kDim, "w");
  const std::vector<double> r = random_values(kRows * kDim, "r");
  std::vector<double> y(kRows * kDim), inv(kRows), dx(kRows * kStride), dw(kDim);
  std::vector<double> partial(rms_norm_partials(kRows) * kDim);
  const Matrix<const double> in(x.data(), kRows, kDim, kStride);
  const auto loss = [&] {
    rms_norm_forward<double>(in, w, 1e-5, {y.data(), kRows, kDim}, inv);
    return weighted_sum(r, y.data());
  };
  loss();
  rms_norm_backward<double>({r.data(), kRows, kDim}, {in, w, inv}, {dx.data(), kRows, kDim, kStride}, false,
                            {dw, {partial.data(), rms_norm_partials(kRows), kDim}});
  expect_gradient("x", x, dx, loss, 200);
  expect_gradient("weight", w, dw, loss);
}

TEST(Gradients, RopeTurnsBackExactly) {
  const auto rope = Rope<double>::plain(50, 6, 10000);
  std::vector<double> x = random_values(6, "x");
  const std::vector<double> r = random_values(6, "r");
  std::vector<double> dx = r;
  rope.apply_back(dx, 37);
  expect_gradient("x", x, dx, [&] {
    std::vector<double> y = x;
    rope.apply(y, 37);
    return weighted_sum(r, y.data());
  });
}

ModelConfig tiny_model() {
  ModelConfig m;
  m.vocab = 11;
  m.dim = 12;
  m.n_layers = 2;
  m.n_dense_layers = 1;
  m.dense_inter = 10;
  m.n_heads = 2;
  m.kv_lora_rank = 5;
  m.qk_nope_head_dim = 3;
  m.qk_rope_head_dim = 4;
  m.v_head_dim = 3;
  m.n_experts = 6;
  m.moe_inter = 7;
  m.n_shared = 2;
  return m;
}

template <class T>
void fill_weights(Parameters<T>& parameters) {
  for (const ParameterTensor& tensor : parameters.tensors())
    parameters.scatter(tensor, random_values(tensor.elements(), tensor.name.c_str(), 0.4), parameters.weights);
}

class AttentionGradients : public testing::TestWithParam<int> {};

TEST_P(AttentionGradients, EveryWeightAndTheInput) {
  // 70 positions: two blocks of queries.
  constexpr int kSequences = 2, kLength = 70;
  ModelConfig m = tiny_model();
  m.q_lora_rank = GetParam();
  m.n_layers = 1;
  Parameters<double> parameters(m);
  fill_weights(parameters);
  const std::size_t size = static_cast<std::size_t>(kSequences * kLength * m.dim);
  std::vector<double> h = random_values(size, "h");
  const std::vector<double> r = random_values(size, "r");
  std::vector<double> y(size), dh(size), dy = r;
  Arena<double> arena;
  AttentionActivations<double> activations;
  AttentionWorkspace<double> workspace;
  const Attention<double> attention(m, kSequences, kLength);
  attention.plan(arena, activations);
  workspace.plan(arena, m, kSequences * kLength);
  arena.commit();
  const auto& w = parameters.weight_view.layers[0];
  const auto token_rows = [&](std::vector<double>& values) {
    return Matrix<double>(values.data(), kSequences * kLength, m.dim);
  };
  const auto loss = [&] {
    std::fill(y.begin(), y.end(), 0.0);
    attention.forward(w, token_rows(h), activations, token_rows(y));
    return weighted_sum(r, y.data());
  };
  loss();
  attention.backward(w, token_rows(h), token_rows(dy), activations,
                     {parameters.gradient_view.layers[0], workspace, token_rows(dh)});
  expect_gradient("h", h, dh, loss);
  int checked = 0;
  for (const ParameterTensor& tensor : parameters.tensors()) {
    if (tensor.name.find("attention.") == std::string::npos) continue;
    expect_gradient(tensor.name.c_str(), parameters.weights.subspan(tensor.offset, tensor.elements()),
                    parameters.gradients.subspan(tensor.offset, tensor.elements()), loss, 12);
    ++checked;
  }
  EXPECT_EQ(checked, m.q_lora_rank > 0 ? 7 : 5);
}

INSTANTIATE_TEST_SUITE_P(PlainAndLowRankQuery, AttentionGradients, testing::Values(0, 4));

TEST(Gradients, FeedForward) {
  constexpr int kTokens = 9, kDim = 6, kInter = 5;
  std::vector<double> w13 = random_values(2 * kDim * kInter, "w13"), w2 = random_values(kDim * kInter, "w2");
  std::vector<double> g13(w13.size()), g2(w2.size()), h = random_values(kTokens * kDim, "h");
  const std::vector<double> r = random_values(h.size(), "r");
  std::vector<double> y(h.size()), dh(h.size());
  Arena<double> arena;
  FeedForwardActivations<double> a, scratch;
  a.plan(arena, kTokens, kInter);
  scratch.plan(arena, kTokens, kInter);
  arena.commit();
  const FeedForwardView<double> w{{w13.data(), 2 * kInter, kDim}, {w2.data(), kDim, kInter}},
      g{{g13.data(), 2 * kInter, kDim}, {g2.data(), kDim, kInter}};
  const Matrix<const double> in(h.data(), kTokens, kDim);
  const auto loss = [&] {
    std::fill(y.begin(), y.end(), 0.0);
    feed_forward_forward<double>(w, in, a, {y.data(), kTokens, kDim});
    return weighted_sum(r, y.data());
  };
  loss();
  feed_forward_backward<double>(w, in, {r.data(), kTokens, kDim}, a, {g, scratch, {dh.data(), kTokens, kDim}, false});
  expect_gradient("h", h, dh, loss);
  expect_gradient("w1, w3", w13, g13, loss);
  expect_gradient("w2", w2, g2, loss);
}

TEST(Gradients, MoeLayer) {
  constexpr int kSequences = 2, kLength = 9, kTokens = kSequences * kLength;
  RunConfig config;
  config.model = tiny_model();
  config.router.top_k = 3;
  Parameters<double> parameters(config.model);
  fill_weights(parameters);
  const Index dim = config.model.dim;
  std::vector<double> h = random_values(kTokens * dim, "h");
  const std::vector<double> r = random_values(h.size(), "r"), residual = random_values(h.size(), "residual"),
                            bias(config.model.n_experts);
  std::vector<double> y(h.size()), dh(h.size());
  const BatchPart part(kSequences, kLength);
  MoeLayer<double> layer(config, part);
  MoeActivations<double> activations;
  MoeWorkspace<double> workspace;
  Arena<double> arena;
  activations.plan_memory(arena, config, part);
  workspace.plan_memory(arena, config, part);
  arena.commit();
  PhaseClock clock;
  const StepPrecision unquantized;
  const LayerPrecision precision{.step = &unquantized, .shard_rows = part.shard_rows()};
  const MoePass<double> pass{parameters.weight_view.layers[1], activations, workspace, precision, clock};
  const Matrix<const double> in(h.data(), kTokens, dim);
  const auto loss = [&] {
    layer.forward(pass, in, {residual.data(), kTokens, dim}, bias, {y.data(), kTokens, dim});
    return weighted_sum(r, y.data());
  };
  loss();
  layer.backward(pass, parameters.gradient_view.layers[1], in, {r.data(), kTokens, dim}, {dh.data(), kTokens, dim});
  expect_gradient("h", h, dh, loss, 100);
  for (const char* name : {"layers.1.moe.router.gate.weight", "layers.1.moe.experts.w2"}) {
    const ParameterTensor& tensor = parameters.tensor(name);
    expect_gradient(name, parameters.weights.subspan(tensor.offset, tensor.elements()),
                    parameters.gradients.subspan(tensor.offset, tensor.elements()), loss);
  }
}

struct RouterCase {
  const char* name;
  RouterConfig config;
};

class RouterGradients : public testing::TestWithParam<RouterCase> {};

TEST_P(RouterGradients, GateAndInput) {
  constexpr int kSequences = 2, kLength = 7, kDim = 6, kExperts = 8, kTokens = kSequences * kLength;
  const RouterConfig config = GetParam().config;
  std::vector<double> gate = random_values(kExperts * kDim, "gate"), h = random_values(kTokens * kDim, "h");
  const std::vector<double> bias = random_values(kExperts, "bias", 0.05);
  std::vector<double> r = random_values(static_cast<std::size_t>(kTokens * config.top_k), "r");
  Arena<double> arena;
  RouterActivations<double> a;
  a.plan(arena, {kSequences, kLength}, kExperts, config.top_k);
  arena.commit();
  const RouterInputs<double> in{{gate.data(), kExperts, kDim}, {h.data(), kTokens, kDim}, bias};
  const auto loss = [&] {
    router_forward(config, {kSequences, kLength}, in, a);
    return weighted_sum(r, a.mix.data) + a.aux_loss + a.z_loss;
  };
  loss();
  for (std::size_t i = 0; i < r.size(); ++i)
    if (a.sent()[i] < 0) r[i] = 0;  // combine_backward() gives copies that are not sent no gradient
  std::vector<double> dlogits(kTokens * kExperts), dgate(gate.size()), dh(h.size());
  router_backward<double>(config, in, a,
                          {{r.data(), kTokens, config.top_k},
                           {dlogits.data(), kTokens, kExperts},
                           {dgate.data(), kExperts, kDim},
                           {dh.data(), kTokens, kDim},
                           false});
  expect_gradient("gate", gate, dgate, loss);
  expect_gradient("h", h, dh, loss, 100);
}

std::vector<RouterCase> router_cases() {
  std::vector<RouterCase> cases;
  const auto add = [&](const char* name, const std::function<void(RouterConfig&)>& change) {
    RouterConfig c;
    c.top_k = 3;
    change(c);
    cases.push_back({name, c});
  };
  add("SigmoidNormed", [](RouterConfig&) {});
  add("SigmoidScaledNotNormed", [](RouterConfig& c) {
    c.route_norm = false;
    c.route_scale = 2.5;
  });
  add("SoftmaxNormedScaled", [](RouterConfig& c) {
    c.score_func = ScoreFunc::softmax;
    c.route_scale = 2.5;
  });
  add("SoftmaxNotNormed", [](RouterConfig& c) {
    c.score_func = ScoreFunc::softmax;
    c.route_norm = false;
  });
  add("SqrtSoftplusNormedScaled", [](RouterConfig& c) {
    c.score_func = ScoreFunc::sqrtsoftplus;
    c.route_scale = 1.5;
  });
  add("SqrtSoftplusNotNormedAuxAndZ", [](RouterConfig& c) {
    c.score_func = ScoreFunc::sqrtsoftplus;
    c.route_norm = false;
    c.z_coeff = 0.3;
    c.aux_mode = AuxMode::sequence;
    c.aux_coeff = 0.7;
  });
  add("ChosenByLogit", [](RouterConfig& c) { c.balance_rule = BalanceRule::quantile_microbatch; });
  add("Groups", [](RouterConfig& c) {
    c.n_groups = 4;
    c.n_limited_groups = 2;
  });
  add("ForcedBalance", [](RouterConfig& c) { c.force_balance = true; });
  add("SigmoidSequenceAux", [](RouterConfig& c) {
    c.aux_mode = AuxMode::sequence;
    c.aux_coeff = 0.7;
  });
  add("SigmoidBatchAux", [](RouterConfig& c) {
    c.aux_mode = AuxMode::batch;
    c.aux_coeff = 0.7;
  });
  add("SoftmaxSequenceAux", [](RouterConfig& c) {
    c.score_func = ScoreFunc::softmax;
    c.aux_mode = AuxMode::sequence;
    c.aux_coeff = 0.7;
  });
  add("SoftmaxBatchAuxAndZ", [](RouterConfig& c) {
    c.score_func = ScoreFunc::softmax;
    c.aux_mode = AuxMode::batch;
    c.aux_coeff = 0.7;
    c.z_coeff = 0.3;
  });
  add("SigmoidZ", [](RouterConfig& c) { c.z_coeff = 0.3; });
  add("DroppedByWeightSequenceAux", [](RouterConfig& c) {
    c.token_drop = TokenDrop::probs;
    c.capacity_factor = 0.8;
    c.aux_mode = AuxMode::sequence;
    c.aux_coeff = 0.7;
  });
  add("DroppedByPositionBatchAux", [](RouterConfig& c) {
    c.token_drop = TokenDrop::position;
    c.capacity_factor = 0.6;
    c.aux_mode = AuxMode::batch;
    c.aux_coeff = 0.7;
  });
  add("AllExperts", [](RouterConfig& c) { c.top_k = 8; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, RouterGradients, testing::ValuesIn(router_cases()),
                         [](const auto& info) { return info.param.name; });

// Expert 3 gets nothing: its gradient must be zero.
class ExpertGradients : public testing::TestWithParam<std::vector<std::int32_t>> {};

TEST_P(ExpertGradients, DispatchExpertsAndCombine) {
  constexpr int kTokens = 10, kDim = 6, kInter = 5, kExperts = 5, kTopK = 2, kSlots = kTokens * kTopK;
  const std::vector<std::int32_t>& ids = GetParam();
  std::vector<double> w13 = random_values(kExperts * 2 * kDim * kInter, "w13");
  std::vector<double> w2 = random_values(kExperts * kDim * kInter, "w2");
  std::vector<double> g13(w13.size(), NAN), g2(w2.size(), NAN);
  std::vector<double> h = random_values(kTokens * kDim, "h"), mix = random_values(kSlots, "mix");
  const std::vector<double> r = random_values(h.size(), "r"), residual = random_values(h.size(), "residual");
  std::vector<double> x(kSlots * kDim), h13(kSlots * 2 * kInter), a(kSlots * kInter), expert_y(kSlots * kDim),
      y(h.size());
  const FeedForwardView<double> w{{w13.data(), kExperts * 2 * kInter, kDim}, {w2.data(), kExperts * kDim, kInter}},
      g{{g13.data(), kExperts * 2 * kInter, kDim}, {g2.data(), kExperts * kDim, kInter}};
  const auto token_rows = [](std::vector<double>& rows) { return Matrix<double>(rows.data(), kTokens, kDim); };
  const auto slot_rows = [](std::vector<double>& rows) {
    return Matrix<double>(rows.data(), kSlots, std::ssize(rows) / kSlots);
  };
  const StepPrecision unquantized;
  const LayerPrecision precision{&unquantized};
  DispatchPlan plan;
  plan_dispatch(ids, kTopK, kExperts, plan);
  GroupedExperts<double> experts(kExperts, 0, kExperts, kDim, kInter);
  const auto where_they_lie = [](const std::vector<double>& rows) -> SlotRows<double> {
    return [&rows](SlotRange range, Matrix<double>) {
      return Matrix<const double>(rows.data() + range.first * kDim, range.count(), kDim);
    };
  };
  const auto loss = [&] {
    dispatch_forward<double>(plan, token_rows(h), slot_rows(x));
    experts.forward(precision, w, plan, {where_they_lie(x), slot_rows(h13), slot_rows(a), slot_rows(expert_y)});
    combine_forward<double>(plan, {residual.data(), kTokens, kDim}, {mix.data(), kTokens, kTopK}, slot_rows(expert_y),
                            token_rows(y));
    return weighted_sum(r, y.data());
  };
  loss();
  std::vector<double> dexpert_y(expert_y.size()), dmix(mix.size()), dx(x.size()), dh(h.size());
  combine_backward<double>(plan, {r.data(), kTokens, kDim}, {mix.data(), kTokens, kTopK}, slot_rows(expert_y),
                           slot_rows(dexpert_y), {dmix.data(), kTokens, kTopK});
  experts.backward(precision, w, plan,
                   {g, where_they_lie(x), where_they_lie(dexpert_y), slot_rows(h13), slot_rows(a), slot_rows(dx)});
  dispatch_backward<double>(plan, slot_rows(dx), token_rows(dh));
  expect_gradient("h", h, dh, loss, 100);
  expect_gradient("mix", mix, dmix, loss);
  expect_gradient("w1, w3", w13, g13, loss, 150);
  expect_gradient("w2", w2, g2, loss, 150);
  for (int i = 0; i < kDim * kInter; ++i) EXPECT_EQ(g2[static_cast<std::size_t>(3 * kDim * kInter + i)], 0);
}

INSTANTIATE_TEST_SUITE_P(
    AllAndSomeCopies, ExpertGradients,
    testing::Values(std::vector<std::int32_t>{0, 1, 0, 2, 1, 4, 0, 1, 2, 4, 0, 4, 1, 2, 0, 2, 0, 1, 1, 4},
                    std::vector<std::int32_t>{0, 1, 0, 2, -1, 4, -1, -1, 2, -1, 0, 4, 1, 2, 0, 2, 0, 1, 1, 4}));

TEST(Gradients, CrossEntropy) {
  constexpr int kTokens = 5, kVocab = 19;
  std::vector<double> logits = random_values(kTokens * kVocab, "logits", 3);
  const std::vector<std::int32_t> target = {0, 18, 3, 7, 7};
  std::vector<double> dlogits(logits.size()), scratch(logits.size()), token_loss(kTokens);
  const Matrix<const double> in(logits.data(), kTokens, kVocab);
  cross_entropy<double>(in, {target, kTokens}, {1, kTokens}, {dlogits.data(), kTokens, kVocab}, token_loss);
  expect_gradient("logits", logits, dlogits, [&] {
    return cross_entropy<double>(in, {target, kTokens}, {1, kTokens}, {scratch.data(), kTokens, kVocab}, token_loss);
  });
}

// The whole model: every tensor, the embedding, the head and the connections between layers.
TEST(Gradients, WholeModel) {
  struct Parts {
    int q_lora_rank;
    bool shared_gate;
    int latent_dim;
    bool latent_norm;
  };
  for (const auto& [q_lora_rank, shared_gate, latent_dim, latent_norm] :
       {Parts{0, false, 0, false}, Parts{4, true, 0, false}, Parts{0, false, 8, true}, Parts{4, true, 5, false}}) {
    SCOPED_TRACE(latent_dim);
    RunConfig config;
    config.model = tiny_model();
    config.model.shared_expert_gate = shared_gate;
    config.model.latent_dim = latent_dim;
    config.model.latent_norm = latent_norm;
    config.model.n_layers = 3;
    config.model.q_lora_rank = q_lora_rank;
    config.router.top_k = 2;
    config.router.n_groups = 3;
    config.router.n_limited_groups = 2;
    config.router.aux_mode = AuxMode::sequence;
    config.router.aux_coeff = 0.3;
    config.router.z_coeff = 0.2;
    if (q_lora_rank) {
      config.router.n_hash_layers = 1;
      config.router.token_drop = TokenDrop::probs;
      config.router.capacity_factor = 1;
    }
    Learner<double> learner(config, Weights::zero);
    fill_weights(learner.parameters);
    Batch batch{.sequences = 2, .length = 9, .input = {}, .target = {}, .domain = {0, 0}};
    for (int t = 0; t < 18; ++t) {
      batch.input.push_back((t * 7 + 3) % 11);
      batch.target.push_back((t * 5 + 1) % 11);
    }
    PhaseClock clock;
    const auto loss = [&] {
      const Losses losses = learner.forward(batch, false, clock);
      return losses.ce + losses.aux + losses.z;
    };
    loss();
    learner.backward(batch, clock);
    for (const ParameterTensor& tensor : learner.parameters.tensors())
      expect_gradient(tensor.name.c_str(), learner.parameters.weights.subspan(tensor.offset, tensor.block_elements()),
                      learner.parameters.gradients.subspan(tensor.offset, tensor.block_elements()), loss, 10);
  }
}

// Returns the cross-entropy of a batch of 18 tokens.
double loss_of(Learner<double>& learner) {
  Batch batch{.sequences = 2, .length = 9, .input = {}, .target = {}, .domain = {0, 0}};
  for (int t = 0; t < 18; ++t) {
    batch.input.push_back((t * 7 + 3) % 11);
    batch.target.push_back((t * 5 + 1) % 11);
  }
  PhaseClock clock;
  return learner.forward(batch, false, clock).ce;
}

void fill_tensor(Parameters<double>& parameters, const char* name, const std::vector<double>& values) {
  parameters.scatter(parameters.tensor(name), values, parameters.weights);
}

// With zero weights the gate is sigmoid(0) = 1/2, so that the shared experts act as without a gate but with half of w2.
TEST(SharedGate, LetsHalfPassWhereItsWeightsAreZero) {
  RunConfig config;
  config.model = tiny_model();
  config.router.top_k = 2;
  Learner<double> plain(config, Weights::zero);
  config.model.shared_expert_gate = true;
  Learner<double> gated(config, Weights::zero);
  fill_weights(plain.parameters);
  fill_weights(gated.parameters);
  const double open = loss_of(gated);
  fill_tensor(gated.parameters, "layers.1.moe.shared_expert_gate.weight", std::vector<double>(12, 0));
  const ParameterTensor& w2 = plain.parameters.tensor("layers.1.moe.shared_experts.w2.weight");
  std::vector<double> halved = plain.parameters.gather(w2, plain.parameters.weights);
  for (double& value : halved) value /= 2;
  plain.parameters.scatter(w2, halved, plain.parameters.weights);
  EXPECT_NEAR(loss_of(gated), loss_of(plain), 1e-12);
  EXPECT_GT(std::fabs(open - loss_of(plain)), 1e-6) << "random weights let more or less of it pass";
}

TEST(LatentExperts, AreOrdinaryOnesWhereBothProjectionsKeepTheToken) {
  RunConfig config;
  config.model = tiny_model();
  config.router.top_k = 2;
  Learner<double> plain(config, Weights::zero);
  config.model.latent_dim = config.model.dim;
  Learner<double> latent(config, Weights::zero);
  fill_weights(plain.parameters);
  fill_weights(latent.parameters);
  EXPECT_GT(std::fabs(loss_of(latent) - loss_of(plain)), 1e-6);
  std::vector<double> identity(12 * 12);
  for (std::size_t i = 0; i < 12; ++i) identity[i * 13] = 1;
  fill_tensor(latent.parameters, "layers.1.moe.latent_down.weight", identity);
  fill_tensor(latent.parameters, "layers.1.moe.latent_up.weight", identity);
  EXPECT_NEAR(loss_of(latent), loss_of(plain), 1e-12);
}

// The norm cancels the sizes of the mixing weights; only their proportions matter.
TEST(LatentExperts, NormTakesOutTheGateScale) {
  RunConfig config;
  config.model = tiny_model();
  config.model.latent_dim = 8;
  config.model.norm_eps = 1e-12;
  config.router.top_k = 2;
  for (const bool norm : {false, true}) {
    config.model.latent_norm = norm;
    config.router.route_scale = 1;
    Learner<double> once(config, Weights::zero);
    config.router.route_scale = 5;
    Learner<double> five_times(config, Weights::zero);
    fill_weights(once.parameters);
    fill_weights(five_times.parameters);
    EXPECT_EQ(std::fabs(loss_of(once) - loss_of(five_times)) < 1e-8, norm);
  }
}

}  // namespace
}  // namespace moescope
