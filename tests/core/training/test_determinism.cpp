// The same config and seed give the same bits: for any number of threads, and across a resume.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "core/files/tensors/safetensors.h"
#include "core/model/layers/precision.h"
#include "core/numerics/processor.h"
#include "core/numerics/threads.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/engine.h"
#include "core/training/trainer.h"
#include "tests/support/engine_frames.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

// Settings of a case: a recipe for every GEMM of the model, and options beside it.
struct Numbers {
  Recipe recipe;
  Rounding rounding = Rounding::nearest;
  bool hadamard = false;
  TokenPayload payload = TokenPayload::fp32;
  BalanceRule rule = BalanceRule::sign;
  OptimizerName optimizer = OptimizerName::adamw;
  Nvfp4Rule scales = Nvfp4Rule::divided;
  StoredFormat stored = StoredFormat::fp32;
};

RunConfig config_with(const Numbers& numbers) {
  RunConfig c;
  c.model.dim = 64;
  c.model.n_layers = 3;
  c.model.dense_inter = 96;
  c.model.n_heads = 2;
  c.model.q_lora_rank = 24;
  c.model.kv_lora_rank = 32;
  c.model.qk_nope_head_dim = 16;
  c.model.qk_rope_head_dim = 8;
  c.model.v_head_dim = 16;
  c.model.n_experts = 8;
  c.model.moe_inter = 32;
  c.router.top_k = 2;
  c.router.aux_mode = AuxMode::sequence;
  c.router.aux_coeff = 1e-3;
  c.router.z_coeff = 1e-4;
  c.router.balance_rule = numbers.rule;
  c.router.quantile_ema = 0.5;
  PrecisionConfig& p = c.precision;
  p.experts = p.shared_experts = p.dense_ffn = p.attention = p.router_gate = p.head = numbers.recipe;
  p.rounding = numbers.rounding;
  p.hadamard = numbers.hadamard;
  p.payload = numbers.payload;
  c.optimizer.name = numbers.optimizer;
  if (numbers.optimizer == OptimizerName::muon) {
    c.router.n_hash_layers = 1;
    c.router.token_drop = TokenDrop::probs;
    c.router.capacity_factor = 1;
    c.model.shared_expert_gate = true;
    c.optimizer.qk_clip = 0.02;  // scores are far smaller here than in a long training
    c.model.latent_dim = 32;
    c.model.latent_norm = true;
  }
  p.gate_output = p.activations = p.residual = p.norm_gains = numbers.stored;
  c.router.bias_format = c.router.count_format = numbers.stored;
  c.optimizer.master_format = c.optimizer.moment1_format = c.optimizer.moment2_format = numbers.stored;
  c.optimizer.update_stochastic = numbers.stored == StoredFormat::bf16;
  p.nvfp4_rule = numbers.scales;
  if (p.nvfp4_rule == Nvfp4Rule::transformer_engine) {  // NVIDIA's recipe, and 4over6
    p.stochastic_operands = StochasticOperands::gradients;
    p.hadamard_gemms = RotatedGemms::wgrad;
    p.hadamard_signs = RotationForm::fixed_bf16;
    p.nvfp4_square_weights = true;
    p.nvfp4_four_over_six = FourOverSixChoice::mae_256;
  }
  c.data.batch = 3;
  c.data.seq = 100;
  c.telemetry.window = 4;
  c.telemetry.specialisation_every = 3;
  return c;
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the figures of a frame that must be equal: losses, norms, counts and figures of quantization.
std::string digest(const TelemetryFrame& f) {
  std::string bytes;
  const auto add = [&](const void* data, std::size_t size) { bytes.append(static_cast<const char*>(data), size); };
  for (const float v : {f.ce_loss, f.aux_loss, f.z_loss, f.grad_norm, f.lr, f.max_logit}) add(&v, sizeof(v));
  for (const RouterFrame& r : f.routers) {
    add(r.tokens_per_expert.data(), r.tokens_per_expert.size() * 4);
    add(r.expert_bias.data(), r.expert_bias.size() * 4);
    add(r.score_mass.data(), r.score_mass.size() * 4);
    for (const float v : {r.max_vio_window, r.dead_fraction, r.margin, r.score_entropy}) add(&v, sizeof(v));
  }
  for (const SpecialisationFrame& s : f.specialisation)
    for (const auto* table : {&s.domain_DE, &s.together_EE, &s.byte_256E}) add(table->data(), table->size() * 4);
  for (const QuantFrame& q : f.quants) {
    add(q.e8m0_blocks.data(), sizeof(q.e8m0_blocks));
    for (const float v : {q.amax, q.sqnr_db, q.cosine, q.underflow, q.crest}) add(&v, sizeof(v));
  }
  return bytes;
}

class Determinism : public testing::TestWithParam<Numbers> {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("moescope_determinism_" + std::to_string(getpid()));
    fs::create_directories(directory_);
  }
  void TearDown() override {
    set_num_threads(0);
    fs::remove_all(directory_);
  }
  std::string path(const char* name) const { return (directory_ / name).string(); }

  RunConfig config_ = config_with(GetParam());
  std::unique_ptr<Dataset> data_ = open_dataset(config_.data, config_.seed);
  fs::path directory_;
};

TEST_P(Determinism, ThreadsDoNotChangeABit) {
  std::string frames[2], weights[2];
  for (const int i : {0, 1}) {
    set_num_threads(i == 0 ? 1 : 3);
    Trainer trainer(config_);
    for (int step = 0; step < 4; ++step) frames[i] += digest(trainer.step(data_->batch(step)));
    trainer.save(path("weights"));
    weights[i] = slurp(path("weights"));
  }
  EXPECT_FALSE(frames[0].empty());
  EXPECT_TRUE(frames[1] == frames[0]);
  EXPECT_TRUE(weights[1] == weights[0]);
}

TEST_P(Determinism, ResumedEqualsUninterrupted) {
  Trainer whole(config_);
  whole.step(data_->batch(0));
  whole.apply({0, &OptimizerConfig::lr, 5e-3});
  for (int step = 1; step < 5; ++step) whole.step(data_->batch(step));
  whole.save(path("checkpoint"));
  Trainer resumed = Trainer::resume(path("checkpoint"));
  EXPECT_EQ(resumed.steps_taken(), 5);
  EXPECT_EQ(resumed.config().optimizer.lr, 5e-3);
  for (int step = 5; step < 7; ++step) {  // step 6 has a table of the specialisation
    const TelemetryFrame a = whole.step(data_->batch(step)), b = resumed.step(data_->batch(step));
    EXPECT_TRUE(digest(a) == digest(b)) << step;
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.tokens, b.tokens);
  }
  whole.save(path("a"));
  resumed.save(path("b"));
  EXPECT_TRUE(slurp(path("a")) == slurp(path("b")));
}

std::vector<Numbers> all_numbers() {
  std::vector<Numbers> cases;
  for (const RecipeInfo& info : recipes()) cases.push_back({info.recipe});
  for (const Recipe recipe : {Recipe::fp8_tensorwise, Recipe::fp8_rowwise, Recipe::mxfp8_rceil, Recipe::nvfp4})
    cases.push_back({recipe, Rounding::stochastic, true, TokenPayload::mxfp8});
  cases.push_back({Recipe::mxfp4, Rounding::stochastic, false, TokenPayload::bf16});
  for (const BalanceRule rule : {BalanceRule::proportional, BalanceRule::smebu, BalanceRule::quantile_batch,
                                 BalanceRule::quantile_microbatch, BalanceRule::quantile_sequence})
    cases.push_back({.recipe = Recipe::fp32, .rule = rule});
  cases.push_back({.recipe = Recipe::fp32, .optimizer = OptimizerName::muon});
  for (const Nvfp4Rule scales : {Nvfp4Rule::transformer_engine, Nvfp4Rule::torchao, Nvfp4Rule::torchao_one_level})
    cases.push_back({.recipe = Recipe::nvfp4, .rounding = Rounding::stochastic, .hadamard = true, .scales = scales});
  for (const OptimizerName optimizer : {OptimizerName::adamw, OptimizerName::muon})
    cases.push_back({.recipe = Recipe::bf16, .optimizer = optimizer, .stored = StoredFormat::bf16});
  return cases;
}

std::string case_name(const testing::TestParamInfo<Numbers>& info) {
  std::string name = recipe_info(info.param.recipe).name;
  if (info.param.rounding == Rounding::stochastic) name += "_stochastic";
  if (info.param.hadamard) name += "_rotated";
  if (info.param.rule == BalanceRule::proportional) name += "_proportional";
  if (info.param.rule == BalanceRule::smebu) name += "_smebu";
  if (info.param.rule == BalanceRule::quantile_sequence) name += "_quantile_sequence";
  if (info.param.rule == BalanceRule::quantile_batch) name += "_quantile_batch";
  if (info.param.rule == BalanceRule::quantile_microbatch) name += "_quantile_microbatch";
  if (info.param.optimizer == OptimizerName::muon) name += "_muon";
  if (info.param.stored == StoredFormat::bf16) name += "_stored_bf16";
  if (info.param.scales != Nvfp4Rule::divided) name += "_scales" + std::to_string(static_cast<int>(info.param.scales));
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recipes, Determinism, testing::ValuesIn(all_numbers()), case_name);

// An expert with more rows than a group of the grouped GEMM, with scales that cover all its rows.
TEST(RowGroups, ThreadsDoNotChangeABitOfLargeExperts) {
  for (const Recipe recipe : {Recipe::nvfp4, Recipe::fp8_rowwise, Recipe::mxfp8_rceil}) {
    RunConfig config = config_with({recipe, Rounding::stochastic, true});
    config.data.batch = 12;
    config.router.bias_update_rate = 1;  // whole batches swing from expert to expert
    config.router.bias_centring = false;
    const auto data = open_dataset(config.data, config.seed);
    std::string frames[2];
    std::uint32_t largest = 0;
    for (int i = 0; i < 2; ++i) {
      set_num_threads(i + 1);
      Trainer trainer(config);
      for (int step = 0; step < 3; ++step) {
        const TelemetryFrame f = trainer.step(data->batch(step));
        for (const RouterFrame& r : f.routers)
          largest = std::max(largest, *std::max_element(r.tokens_per_expert.begin(), r.tokens_per_expert.end()));
        frames[i] += digest(f);
      }
    }
    set_num_threads(0);
    EXPECT_GT(largest, 512u);
    EXPECT_TRUE(frames[0] == frames[1]) << recipe_info(recipe).name;
  }
}

// Random bits are drawn from the seed and the step: another seed or another step gives other bits.
TEST(StochasticRounding, DrawsFollowTheSeedAndTheStep) {
  RunConfig config;
  config.precision.experts = Recipe::mxfp4;
  const auto seed = [&](std::int64_t run, std::int64_t step) {
    config.seed = run;
    return step_precision(config, step, 1).class_precision(GemmClass::experts).seed;
  };
  EXPECT_EQ(seed(1, 5), seed(1, 5));
  EXPECT_NE(seed(1, 5), seed(1, 6));
  EXPECT_NE(seed(1, 5), seed(2, 5));
}

// --- Files that cannot be resumed from.

class BadCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("moescope_checkpoint_" + std::to_string(getpid()));
    fs::create_directories(directory_);
    good_ = (directory_ / "good").string();
    bad_ = (directory_ / "bad").string();
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string resume_error(const std::string& path) {
    try {
      Trainer::resume(path);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "resumed";
  }

  // Writes a checkpoint with one change and the checksum of the changed contents.
  void write_altered(const std::function<void(SafetensorsWriter&)>& metadata, const std::string& left_out = {},
                     const std::string& reshaped = {}) {
    const SafetensorsFile file(good_);
    SafetensorsWriter writer;
    for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
    writer.set_metadata(kChecksumKey, kChecksumToCome);
    metadata(writer);
    for (const TensorView& t : file.tensors()) {
      if (t.name == left_out) continue;
      writer.add(t.name, t.dtype, t.name == reshaped ? std::vector<std::size_t>{t.elements()} : t.shape, t.bytes);
    }
    writer.write(bad_);
    write_checksum(bad_);
  }

  fs::path directory_;
  std::string good_, bad_;
};

TEST_F(BadCheckpoint, AnyFlippedBitIsRefused) {
  Trainer(config_with({Recipe::fp32})).save(good_);
  const std::string whole = slurp(good_);
  std::mt19937_64 random(19);
  std::vector<std::size_t> bits;
  for (std::size_t bit = 0; bit < 8 * 8; ++bit) bits.push_back(bit);         // the header's length
  for (int i = 0; i < 200; ++i) bits.push_back(64 + random() % (8 * 4096));  // names, shapes, config
  for (int i = 0; i < 200; ++i) bits.push_back(random() % (8 * whole.size()));
  for (const std::size_t bit : bits) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    std::ofstream(bad_, std::ios::binary) << flipped;
    const std::string error = resume_error(bad_);
    EXPECT_EQ(error.find(bad_), 0u) << "bit " << bit << ": " << error;
    EXPECT_NE(error, "resumed") << "bit " << bit;
  }
  std::ofstream(bad_, std::ios::binary) << whole;
  EXPECT_EQ(resume_error(bad_), "resumed");
}

TEST_F(BadCheckpoint, EachIsNamed) {
  const RunConfig config = config_with({Recipe::fp32});
  Trainer(config).save(good_);
  EXPECT_EQ(resume_error(good_), "resumed");
  EXPECT_EQ(checkpoint_kernels(good_), kernels_here().text());
  const auto contains = [&](const std::string& text) {
    const std::string error = resume_error(bad_);
    EXPECT_NE(error.find(bad_), std::string::npos) << error;
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  const auto keep = [](SafetensorsWriter&) {};
  write_altered([](SafetensorsWriter& w) { w.set_metadata("moescope_checkpoint", "99"); });
  contains("\"99\"");
  write_altered([](SafetensorsWriter& w) { w.set_metadata("config", "[router]\ntop_k = 77"); });
  contains("top_k");
  write_altered([](SafetensorsWriter& w) { w.set_metadata("steps_taken", "-3"); });
  contains("\"-3\"");
  write_altered(keep, "moment2.norm.weight");
  contains("moment2.norm.weight");
  write_altered(keep, "", "output.weight");
  contains("[256, 64]");
  write_altered(keep, "window.layers.1");
  contains("window.layers.1");

  // Of the counts since the last table, a checkpoint has all or none.
  Trainer counting(config);
  const auto data = open_dataset(config.data, config.seed);
  for (int step = 0; step < 2; ++step) counting.step(data->batch(step));
  counting.save(good_);
  EXPECT_EQ(resume_error(good_), "resumed");
  write_altered(keep, "specialisation.layers.2.together");
  contains("specialisation.layers.2.together");
  write_altered(keep, "", "specialisation.layers.1.domain");
  contains("specialisation.layers.1.domain");

  SafetensorsWriter foreign;
  foreign.add("x", DType::u8, {1}, std::as_bytes(std::span("x", 1)));
  foreign.write(bad_);
  contains("not a MoEScope checkpoint");
  const std::string whole = slurp(good_);
  for (const double share : {0.0, 0.0001, 0.01, 0.5, 0.999999}) {
    std::ofstream(bad_, std::ios::binary)
        .write(whole.data(), static_cast<std::streamsize>(share * static_cast<double>(whole.size())));
    contains("");
  }
  EXPECT_NE(resume_error((directory_ / "none").string()).find("none"), std::string::npos);
}

TEST(SideBySideTwins, EqualSequentialTwins) {
  RunConfig config = config_with({.recipe = Recipe::mxfp8_rceil, .rounding = Rounding::stochastic});
  config.telemetry.flips_every = 1;
  RunConfig twin = config;
  twin.name += "-other";
  twin.router.bias_update_rate += 0.01;
  std::string frames[2];
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    const RunConfig both[] = {config, twin};
    Engine engine({std::begin(both), std::end(both)});
    const bool together = threads_per_job(2) > 0;
    EXPECT_EQ(together, threads == 4);
    for (int step = 0; step < 4; ++step)
      for (const TelemetryFrame& frame : step_frames(engine)) {
        frames[together] += digest(frame);
        for (const FlipFrame& flips : frame.flips) frames[together] += std::to_string(flips.flip_rate) + ' ';
        EXPECT_EQ(frame.flips.empty(), frame.run == 0);
      }
  }
  set_num_threads(0);
  EXPECT_FALSE(frames[0].empty());
  EXPECT_TRUE(frames[0] == frames[1]);
}

// Run A, a twin that replays its routing in the same formats, and two twins in MXFP4, the second of which replays it.
std::vector<RunConfig> replayed_twins() {
  RunConfig a = config_with({.recipe = Recipe::fp32});
  a.router.gate_noise = 0.1;
  a.optimizer.warmup_steps = 1;
  a.telemetry.flips_every = a.telemetry.gradient_every = 1;
  std::vector<RunConfig> runs(4, a);
  runs[1].router.replay = runs[3].router.replay = true;
  runs[2].precision.experts = runs[3].precision.experts = Recipe::mxfp4;
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = std::string(1, static_cast<char>('a' + i));
  return runs;
}

float mean_overlap(const TelemetryFrame& frame) {
  float sum = 0;
  for (const FlipFrame& layer : frame.flips) sum += layer.overlap;
  return sum / static_cast<float>(frame.flips.size());
}

TEST(RoutingReplay, LeavesTheArithmeticAlone) {
  const std::vector<RunConfig> configs = replayed_twins();
  Engine engine({configs.begin(), configs.end()});
  for (int step = 0; step < 6; ++step) {
    const std::vector<TelemetryFrame> frames = step_frames(engine);
    ASSERT_EQ(frames.size(), 4u);
    EXPECT_TRUE(digest(frames[1]) == digest(frames[0])) << "the same formats give run A to the bit, step " << step;
    EXPECT_EQ(mean_overlap(frames[1]), 1);
    EXPECT_EQ(mean_overlap(frames[3]), 1) << "forced, whatever its scores say";
    if (step > 1) {
      EXPECT_LT(mean_overlap(frames[2]), 1);
      EXPECT_GT(mean_overlap(frames[2]), 0.25f) << "two routers of K = 2 of E = 8 share so many by chance";
      EXPECT_NE(frames[3].ce_loss, frames[0].ce_loss) << "the arithmetic is its own";
      EXPECT_NE(frames[3].ce_loss, frames[2].ce_loss);
      EXPECT_NE(frames[3].routers[0].gate_mass, frames[0].routers[0].gate_mass) << "and so are the mixing weights";
    }
    for (std::size_t i = 0; i < frames[0].routers.size(); ++i) {
      EXPECT_EQ(frames[3].routers[i].tokens_per_expert, frames[0].routers[i].tokens_per_expert);
      EXPECT_EQ(frames[3].rounding_flips[i].flip_rate, 0) << "the FP32 pass replays as well";
    }
  }
}

TEST(RoutingReplay, GivesTheSameBitsForAnyNumberOfThreads) {
  std::string frames[2];
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    const std::vector<RunConfig> configs = replayed_twins();
    Engine engine({configs.begin(), configs.end()});
    for (int step = 0; step < 3; ++step)
      for (const TelemetryFrame& frame : step_frames(engine)) frames[threads == 4] += digest(frame);
  }
  set_num_threads(0);
  EXPECT_FALSE(frames[0].empty());
  EXPECT_TRUE(frames[0] == frames[1]);
}

}  // namespace
}  // namespace moescope
