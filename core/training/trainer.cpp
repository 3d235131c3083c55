#include "core/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/checkpoints/training_start.h"
#include "core/cluster/ranks/placement.h"
#include "core/cluster/ranks/volumes.h"
#include "core/config/config_check.h"
#include "core/config/config_toml.h"
#include "core/model/moe/bias_rules.h"
#include "core/model/moe/expert_placement.h"
#include "core/model/moe/router_sums.h"
#include "core/model/rank_gather.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/number_format.h"
#include "core/numerics/processor.h"
#include "core/numerics/threads.h"
#include "core/training/expert_weights.h"
#include "core/training/operand_scan.h"
#include "core/training/trainer_state.h"

namespace moescope {
namespace {

VolumeFrame volume_of(const RunConfig& config, int layer, const RouterActivations<float>& router,
                      const LoadPlanner& planner) {
  const ParallelConfig& p = config.parallel;
  const PlacementChoice choice = parse_placement_choice(p.placement);
  if (choice.kind == PlacementChoice::Kind::contiguous)
    return count_volumes(router.sent(), config.router.top_k, config.model.n_experts, p.ranks, p.ranks_per_node);
  const std::vector<std::uint64_t> own_load(router.tokens_per_expert.begin(), router.tokens_per_expert.end());
  const Placement placement = place(choice, {layer, p.ranks, p.ranks_per_node, config.router.n_groups},
                                    config.model.n_experts, choice.replan_every > 0 ? planner.planned_of : own_load);
  return count_volumes(router.sent(), config.router.top_k, placement, p.ranks_per_node);
}

// Returns the share of copies that are dropped, which are those of each microbatch beyond its own capacity. If no
// copies are dropped, returns the share of copies beyond the capacity of the batch.
float dropped_share(const RouterConfig& config, const RouterActivations<float>& router) {
  if (config.token_drop == TokenDrop::none) return dropped_fraction(router.tokens_per_expert, config.capacity_factor);
  const auto sum = [](const std::vector<std::uint32_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  };
  const std::uint64_t chosen = sum(router.tokens_per_expert), sent = sum(router.rows_per_expert);
  return chosen == 0 ? kNoValue : static_cast<float>((chosen - sent) / static_cast<double>(chosen));
}

RouterFrame router_frame(const RunConfig& config, int layer, const RouterActivations<float>& router,
                         std::span<const float> expert_bias, const LoadWindow& window, const LoadPlanner& planner) {
  RouterFrame frame = sum_router(config.router, router);
  frame.layer = layer;
  frame.tokens_per_expert = router.tokens_per_expert;
  frame.expert_bias.assign(expert_bias.begin(), expert_bias.end());
  fill_derived_figures(frame, window);
  frame.aux_loss = static_cast<float>(router.aux_loss);
  frame.z_loss = static_cast<float>(router.z_loss);
  frame.dropped_fraction = dropped_share(config.router, router);
  frame.volume = volume_of(config, layer, router, planner);
  return frame;
}

// Sets bias_for_share_EQ of every layer. Collective, because the shares are taken over all tokens.
void add_biases_for_shares(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers) {
  const Transformer<float>& model = learner.model();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const WholeRouter router(model.moe()[i].router, model.part());
    layers[i].bias_for_share_EQ = biases_for_shares(learner.config.router, router.get());
  }
}

QuantFrame quant_frame(const OperandPlace& place, const OperandFormat& format, const QuantSums& sums) {
  QuantFrame frame{place, quant_format(format)};
  frame.e8m0_blocks = sums.e8m0_blocks;
  frame.amax = sums.amax;
  frame.sqnr_db = static_cast<float>(sums.sqnr_db());
  frame.relative_l2 = static_cast<float>(sums.relative_l2());
  frame.cosine = static_cast<float>(sums.cosine());
  frame.underflow = static_cast<float>(sums.underflow_share());
  frame.clipped = static_cast<float>(sums.clipped_share());
  if (sums.blocks > 0) {  // formats without scales have no blocks
    frame.clipped_blocks = static_cast<float>(sums.clipped_blocks_share());
    frame.crest = static_cast<float>(sums.mean_crest());
  }
  return frame;
}

// Returns all operands of a layer that may be quantized, in the order of recordings.
std::vector<ModelOperand> model_operands() {
  using enum Gemm;
  std::vector<ModelOperand> all = {kDispatch, kCombine, kCombineGradient, kDispatchGradient};
  for (const Gemm gemm : {expert_w1, expert_w2, expert_w3, wq, wq_a, wq_b, wkv_a, wkv_b, wo, dense_w1, dense_w3,
                          dense_w2, shared_w1, shared_w3, shared_w2, gate, output})
    for (const GemmOperand& at : kGemmOperands) all.push_back({gemm, at});
  return all;
}

OperandFormat format_of(const RunConfig& config, const StepPrecision& precision, ModelOperand operand) {
  const GemmClass gemm_class = gemm_class_of(operand.gemm);
  if (gemm_class == GemmClass::payload) return transfer_format(config.precision.payload, operand);
  return precision.class_precision(gemm_class).format(operand.at.direction, operand.at.operand);
}

// Returns the statistics of all quantized operands. Operands that a layer does not have are left out, because they have
// counted no elements.
std::vector<QuantFrame> quant_frames(const RunConfig& config, const Transformer<float>& model) {
  static const std::vector<ModelOperand> operands = model_operands();
  std::vector<QuantFrame> frames;
  const std::vector<LayerSums> sums = gather_quant_sums(model);
  for (std::size_t layer = 0; layer < sums.size(); ++layer) {
    const bool head = layer + 1 == sums.size();
    for (const auto& [gemm, at] : operands) {
      const OperandFormat format = format_of(config, model.precision()[layer], {gemm, at});
      const Gemm source = at.operand == OperandRole::x ? source_of_x(gemm) : gemm;
      const QuantSums& counted = sums[layer][static_cast<std::size_t>(source)][operand_index(at.direction, at.operand)];
      if (format.scheme == QuantScheme::fp32 || counted.elements == 0) continue;
      frames.push_back(quant_frame({head ? -1 : to_int(layer), gemm, at.operand, at.direction}, format, counted));
    }
  }
  return frames;
}

}  // namespace

Trainer::State::State(const RunConfig& config, Weights weights, Ranks* ranks)
    : learner(config, weights, ranks),
      windows(config.model.n_layers - config.model.n_dense_layers,
              LoadWindow(config.model.n_experts, config.telemetry.window)),
      planners(windows.size()) {}

Trainer::Trainer(const RunConfig& config, Ranks* ranks)
    : state_(std::make_unique<State>(
          config, config.model.initial_weights.empty() ? Weights::initialised : Weights::zero, ranks)) {
  if (config.model.initial_weights.empty()) return;
  Learner<float>& learner = state_->learner;
  load_initial_weights(config, learner.parameters, learner.expert_bias);
  learner.begin();
}
Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

void Trainer::State::require_replayed() const {
  const RunConfig& config = learner.config;
  if (!config.router.replay || learner.replayed.size() == learner.expert_bias.size()) return;
  throw std::runtime_error("run " + config.name +
                           " replays run A's routing (router.replay), which is not available: train it beside run A");
}

// Call after a step is counted; plans placements for the next steps.
void Trainer::State::plan_placements() {
  const int interval = parse_placement_choice(learner.config.parallel.placement).replan_every;
  if (interval == 0) return;
  const auto& moe = learner.model().moe();
  for (std::size_t i = 0; i < planners.size(); ++i)
    planners[i].count_step(learner.steps_taken - 1, interval, moe[i].router.tokens_per_expert);
}

void Trainer::replay(const std::vector<std::vector<std::int32_t>>& experts) {
  state_->learner.replayed = experts;
}

TelemetryFrame Trainer::step(const Batch& batch, OperandTap* tap) {
  const PortableProducts products(config().portable);
  TelemetryFrame frame;
  with_team([&] { frame = take_step(batch, tap); });
  return frame;
}

TelemetryFrame Trainer::take_step(const Batch& batch, OperandTap* tap) {
  State& s = *state_;
  s.require_replayed();
  const RunConfig& config = s.learner.config;
  TelemetryFrame frame;
  frame.step = s.learner.steps_taken;
  const bool with_quants = tap || is_due(frame.step, config.telemetry.quant_every);
  s.clock.start(Phase::other);
  const Losses losses = s.learner.forward(batch, with_quants, s.clock, tap);
  s.learner.backward(batch, s.clock);
  s.clock.enter(Phase::telemetry);
  if (is_due(frame.step, config.telemetry.gradient_every)) {
    if (!s.gradient_reference) s.gradient_reference.emplace();
    s.gradient_reference->compare(s.learner, batch, frame);
  } else if (config.telemetry.gradient_every == 0) {
    s.gradient_reference.reset();
  }
  const bool with_experts = is_due_or_last(frame.step, config.telemetry.specialisation_every, config);
  const ExpertSteps expert_steps(s.learner, with_experts);
  const StepResult result = s.learner.update(losses, s.clock);
  s.clock.enter(Phase::telemetry);
  const bool finite = std::isfinite(losses.ce + losses.aux + losses.z + result.grad_norm);
  s.non_finite = finite ? std::nullopt : moescope::first_non_finite(s.learner);
  s.tokens_seen += batch.input.size();
  frame.tokens = s.tokens_seen;
  frame.ce_loss = static_cast<float>(result.losses.ce);
  frame.aux_loss = static_cast<float>(result.losses.aux);
  frame.z_loss = static_cast<float>(result.losses.z);
  frame.grad_norm = static_cast<float>(result.grad_norm);
  frame.lr = static_cast<float>(result.lr);
  frame.max_logit = static_cast<float>(result.max_logit);

  const Transformer<float>& model = s.learner.model();
  const auto& moe = model.moe();
  Ranks* ranks = s.learner.ranks();
  const bool writes = !ranks || ranks->rank() == 0;
  const bool with_arrays = is_due(frame.step, config.telemetry.frame_interval);
  for (std::size_t i = 0; i < moe.size(); ++i) {
    const int layer = config.model.n_dense_layers + to_int(i);
    s.windows[i].push(moe[i].router.tokens_per_expert);
    if (!with_arrays) continue;
    const WholeRouter router(moe[i].router, model.part());
    std::vector<float> kept_counts;  // a framework that adds its counts in BF16 logs these sums
    if (config.router.count_format == StoredFormat::bf16)
      kept_counts = bf16_counts(model.part(), moe[i].router.sent(), config.model.n_experts);
    if (!writes) continue;
    frame.routers.push_back(
        router_frame(config, layer, router.get(), s.learner.expert_bias[i], s.windows[i], s.planners[i]));
    if (!kept_counts.empty()) frame.routers.back().tokens_per_expert.assign(kept_counts.begin(), kept_counts.end());
    const RoutedIds routed{router.get().ids, model.top_k(), config.model.n_experts, router.get().padding};
    frame.routers.back().max_vio_microbatch = mean_max_vio(routed, model.microbatches());
    frame.routers.back().max_vio_sequence = mean_max_vio(routed, model.sequences());
  }
  s.plan_placements();
  const bool any_rounded =
      config.precision.payload != TokenPayload::fp32 || !std::ranges::all_of(model.precision(), &StepPrecision::plain);
  if (with_quants && any_rounded) frame.quants = quant_frames(config, model);
  s.specialisation.add(batch, s.learner);
  // The statistics of experts and the texts use the experts of all ranks.
  if (with_experts || s.texts.due(config, frame.step)) s.learner.gather_experts();
  if (with_experts) {
    // After the last step of the schedule the counts go on: a later step would have those of one batch.
    frame.specialisation = s.specialisation.take(ranks, is_due(frame.step, config.telemetry.specialisation_every));
    add_biases_for_shares(s.learner, frame.specialisation);
    if (writes) add_expert_weights(s.learner, frame.specialisation);
    expert_steps.add(s.learner, frame.specialisation);
  }
  if (writes) frame.texts = s.texts.collect(s.learner, batch, frame.step);
  frame.wire = gather_wire(ranks);
  frame.phase_ms = s.clock.milliseconds();
  s.learner.replayed = {};  // the next batch has another routing
  return frame;
}

void Trainer::compute_ahead(const Batch& batch, OperandTap& tap) {
  state_->require_replayed();
  const PortableProducts products(config().portable);
  PhaseClock clock;
  with_team([&] {
    state_->learner.forward(batch, false, clock, &tap);
    state_->learner.backward(batch, clock);
  });
}

std::optional<TokenFrame> Trainer::route_probe(const Tokenizer* tokenizer) {
  const PortableProducts products(config().portable);
  std::optional<TokenFrame> probe;
  with_team([&] { probe = state_->texts.probe(state_->learner, tokenizer); });
  return probe;
}

float Trainer::held_out_loss(const std::vector<Batch>& held_out) {
  Learner<float>& learner = state_->learner;
  const PortableProducts products(config().portable);
  const double noise = std::exchange(learner.config.router.gate_noise, 0.0);
  PhaseClock clock;  // not read: the caller counts these passes as telemetry
  double sum = 0;
  with_team([&] {
    for (const Batch& batch : held_out) sum += learner.forward(batch, false, clock).ce;
  });
  learner.config.router.gate_noise = noise;
  gather_wire(learner.ranks());  // discards the volume of these passes, which does not belong to the next step
  return static_cast<float>(sum / held_out.size());
}

std::optional<OperandScan> Trainer::scan_operands(const Batch& batch, std::optional<Recipe> recipe,
                                                  const std::function<bool(int done, int total)>& progress) {
  state_->require_replayed();
  const PortableProducts products(config().portable);
  return moescope::scan_operands(state_->learner, batch, recipe, progress);
}

const RunConfig& Trainer::config() const {
  return state_->learner.config;
}
std::int64_t Trainer::steps_taken() const {
  return state_->learner.steps_taken;
}

std::optional<NonFinitePlace> Trainer::first_non_finite() const {
  return state_->non_finite;
}

std::vector<LayerRouting> Trainer::routing() const {
  return routing_of(state_->learner.model());
}

void Trainer::apply(const LiveChange& change) {
  require_live(change);
  RunConfig changed = config();
  change.setting.field().set(changed, change.value);
  require_valid(changed);
  const bool placed_anew = changed.parallel.placement != config().parallel.placement;
  state_->learner.config = changed;
  if (placed_anew) state_->planners.assign(state_->planners.size(), {});
}

RunInfo run_info(const RunConfig& config, int run, std::vector<std::string> domains) {
  RunInfo info;
  info.run = run;
  info.name = config.name;
  info.source = "trained here";
  info.config_toml = to_toml(config);
  info.n_layers = config.model.n_layers;
  info.moe_layers.resize(config.model.n_layers - config.model.n_dense_layers);
  std::iota(info.moe_layers.begin(), info.moe_layers.end(), config.model.n_dense_layers);
  info.n_experts = config.model.n_experts;
  info.top_k = config.router.top_k;
  info.tokens_per_step = std::int64_t{config.data.batch} * config.data.seq;
  info.ranks = config.parallel.ranks;
  info.ranks_per_node = config.parallel.ranks_per_node;
  info.dim = config.model.row_dim();
  info.window = config.telemetry.window;
  info.domains = std::move(domains);
  info.kernels = kernels_text(config.portable);
  return info;
}

}  // namespace moescope
