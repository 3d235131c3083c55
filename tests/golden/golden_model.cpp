// Checks the model against reference data: golden_model DIR.
//
// Reads every SET.json (settings) in DIR, SET.input.safetensors (weights, initial bias, tokens) and the expected
// results in SET.expected.safetensors and, if it exists, SET.mxfp8.safetensors. Prints the largest error of each kind
// beside its limit, for our float model and for the same code in double. Exits with 1 if a limit is exceeded, with 2 on
// bad input. Tensors that the files do not hold are not checked. Layout and meaning: golden/model/README.md.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "core/model/learner.h"

namespace moescope {
namespace {

// Limits on the difference from the float64 reference. For float: per kind, ten times the difference of a float32 run
// of the reference itself over all sets.
struct Limits {
  double logits, first_loss, scores, mix, gradient_entry, gradient_length, loss, aux, grad_norm, lr, bias, final_norm;
  double first_counts;   // expert choices of the first step that may differ
  double counts_tokens;  // token counts of the whole run that may differ
};
constexpr Limits kFloatExact{
    .logits = 1.3e-5,          // absolute
    .first_loss = 5e-6,        // absolute
    .scores = 2.6e-6,          // absolute
    .mix = 6.5e-6,             // absolute, times route_scale up to 2.5
    .gradient_entry = 1.2e-5,  // relative to the tensor's largest entry
    .gradient_length = 8e-6,   // norm of the difference, relative to the norm of the tensor
    .loss = 2.5e-5,            // absolute, every step
    .aux = 2.5e-5,             // absolute
    .grad_norm = 2.6e-5,       // relative
    .lr = 1e-7,                // relative: float64 schedule, compared before rounding
    .bias = 2.5e-7,            // absolute: sums of 20 float32 updates
    .final_norm = 1e-5,        // relative
    .first_counts = 0,
    .counts_tokens = 0,
};
// Limits for double, because the files store logits and gradients rounded to float32.
constexpr Limits kDoubleExact{
    .logits = 5e-7,
    .first_loss = 1e-11,
    .scores = 1e-12,
    .mix = 1e-11,
    .gradient_entry = 1.2e-7,
    .gradient_length = 6e-8,
    .loss = 1e-9,
    .aux = 1e-9,
    .grad_norm = 1e-8,
    .lr = 1e-12,
    .bias = 1e-12,
    .final_norm = 1e-9,
    .first_counts = 0,
    .counts_tokens = 0,
};
// MXFP8 rounds in steps: a last-bit difference may move an element by one step of E4M3, so that a run in float deviates
// after some steps. It is judged only loosely, and its choices of experts not at all. These limits still detect a wrong
// scale rule, axis or missing operand.
constexpr Limits kMxfp8{
    .logits = 1e-2,
    .first_loss = 1e-5,
    .scores = 1e-2,
    .mix = 1e-1,
    .gradient_entry = 5e-2,
    .gradient_length = 1e-2,
    // Sums in another order round differently, and then tokens choose other experts: 0.018 with OpenBLAS's kernels for
    // Haswell, 0.034 with those for Skylake.
    .loss = 5e-2,
    .aux = 1e-2,
    .grad_norm = 5e-2,
    .lr = 1e-7,
    .bias = INFINITY,  // follows the counts
    .final_norm = 2e-3,
    .first_counts = 4,
    .counts_tokens = INFINITY,
};
// In double such differences are so small that they hardly ever move an element.
constexpr Limits kDoubleMxfp8{
    .logits = 1e-4,
    .first_loss = 1e-6,
    .scores = 1e-4,
    .mix = 1e-3,
    .gradient_entry = 1e-2,
    .gradient_length = 1e-3,
    .loss = 1e-3,
    .aux = 1e-3,
    .grad_norm = 1e-3,
    .lr = 1e-12,
    .bias = 5e-3,
    .final_norm = 1e-4,
    .first_counts = 1,
    .counts_tokens = 16,
};
// If a token's chosen and rejected experts are closer than this, float32 may choose either; from that step on a few
// tokens may differ, and the loss with them.
constexpr double kUnsafeMargin = 2e-6;
constexpr double kLossAfterUnsafe = 1e-3;
constexpr double kTokensAfterUnsafe = 0.005;  // share of all expert choices of the run

using Json = nlohmann::json;

template <class V>
V setting(const Json& json, const char* key, V fallback) {
  return json.contains(key) ? json.at(key).get<V>() : fallback;
}

template <class E>
E choice(const Json& json, const char* key, const std::map<std::string, E>& allowed, E fallback) {
  if (!json.contains(key)) return fallback;
  const std::string name = json.at(key).get<std::string>();
  if (const auto found = allowed.find(name); found != allowed.end()) return found->second;
  std::string names;
  for (const auto& [known, value] : allowed) names += " " + known;
  throw std::runtime_error(std::string(key) + " is \"" + name + "\"; allowed:" + names);
}

RunConfig read_config(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  const Json j = Json::parse(in);
  RunConfig c;
  c.model.vocab = setting(j, "vocab", c.model.vocab);
  c.model.dim = setting(j, "dim", c.model.dim);
  c.model.n_layers = setting(j, "n_layers", c.model.n_layers);
  c.model.n_dense_layers = setting(j, "n_dense_layers", c.model.n_dense_layers);
  c.model.dense_inter = setting(j, "dense_inter", c.model.dense_inter);
  c.model.n_heads = setting(j, "n_heads", c.model.n_heads);
  c.model.q_lora_rank = setting(j, "q_lora_rank", c.model.q_lora_rank);
  c.model.kv_lora_rank = setting(j, "kv_lora_rank", c.model.kv_lora_rank);
  c.model.qk_nope_head_dim = setting(j, "qk_nope_head_dim", c.model.qk_nope_head_dim);
  c.model.qk_rope_head_dim = setting(j, "qk_rope_head_dim", c.model.qk_rope_head_dim);
  c.model.v_head_dim = setting(j, "v_head_dim", c.model.v_head_dim);
  c.model.rope_theta = setting(j, "rope_theta", c.model.rope_theta);
  c.model.norm_eps = setting(j, "norm_eps", c.model.norm_eps);
  c.model.n_experts = setting(j, "n_experts", c.model.n_experts);
  c.model.moe_inter = setting(j, "moe_inter", c.model.moe_inter);
  c.model.n_shared = setting(j, "n_shared", c.model.n_shared);
  c.router.top_k = setting(j, "top_k", c.router.top_k);
  c.router.score_func = choice<ScoreFunc>(
      j, "score_func", {{"sigmoid", ScoreFunc::sigmoid}, {"softmax", ScoreFunc::softmax}}, c.router.score_func);
  c.router.n_groups = setting(j, "n_groups", 0);
  c.router.n_limited_groups = setting(j, "n_limited_groups", 0);
  c.router.route_norm = setting(j, "route_norm", c.router.route_norm);
  c.router.route_scale = setting(j, "route_scale", c.router.route_scale);
  c.router.bias_update_rate = setting(j, "bias_coeff", 0.0);
  c.router.aux_mode = choice<AuxMode>(
      j, "aux_mode", {{"none", AuxMode::none}, {"sequence", AuxMode::sequence}, {"batch", AuxMode::batch}},
      AuxMode::none);
  c.router.aux_coeff = setting(j, "aux_coeff", 0.0);
  c.router.z_coeff = setting(j, "z_coeff", 0.0);
  c.router.force_balance = setting(j, "force_balance", false);
  c.optimizer.lr = setting(j, "lr", c.optimizer.lr);
  c.optimizer.lr_min = setting(j, "lr_min", 0.0);
  c.optimizer.schedule = choice<Schedule>(
      j, "schedule", {{"constant", Schedule::constant}, {"cosine", Schedule::cosine}}, Schedule::constant);
  c.optimizer.warmup_steps = setting(j, "warmup", 0);
  c.optimizer.total_steps = setting(j, "total_steps", 20);
  c.optimizer.beta1 = setting(j, "beta1", c.optimizer.beta1);
  c.optimizer.beta2 = setting(j, "beta2", c.optimizer.beta2);
  c.optimizer.eps = setting(j, "eps", c.optimizer.eps);
  c.optimizer.weight_decay = setting(j, "weight_decay", c.optimizer.weight_decay);
  c.optimizer.clip = setting(j, "clip", c.optimizer.clip);
  c.data.batch = setting(j, "batch", c.data.batch);
  c.data.seq = setting(j, "seq", c.data.seq);
  return c;
}

std::vector<Batch> read_batches(const SafetensorsFile& input, const RunConfig& config) {
  const TensorView &in = input.at("tokens.input"), &target = input.at("tokens.target");
  if (in.shape.size() != 3 || in.shape != target.shape)
    throw std::runtime_error(input.path() + ": tokens.input and tokens.target must both be [batches, batch, seq]");
  const std::vector<std::int64_t> ids = in.integers(), next = target.integers();
  const std::size_t size = in.shape[1] * in.shape[2];
  for (const auto& values : {ids, next})
    for (const std::int64_t id : values)
      if (id < 0 || id >= config.model.vocab)
        throw std::runtime_error(input.path() + ": token " + std::to_string(id) + "; allowed: 0 to " +
                                 std::to_string(config.model.vocab - 1));
  std::vector<Batch> batches(in.shape[0]);
  for (std::size_t b = 0; b < batches.size(); ++b) {
    Batch& batch = batches[b];
    batch.sequences = static_cast<int>(in.shape[1]);
    batch.length = static_cast<int>(in.shape[2]);
    const auto first = static_cast<std::ptrdiff_t>(b * size), last = first + static_cast<std::ptrdiff_t>(size);
    batch.input.assign(ids.begin() + first, ids.begin() + last);
    batch.target.assign(next.begin() + first, next.begin() + last);
    batch.domain.assign(in.shape[1], 0);
  }
  if (batches.empty()) throw std::runtime_error(input.path() + ": tokens.input holds no batch");
  return batches;
}

// The largest error of each kind, and its place.
class Report {
 public:
  void add(const std::string& kind, double error, double limit, const std::string& place = {}) {
    Row* row = nullptr;
    for (Row& known : rows_)
      if (known.kind == kind) row = &known;
    if (!row) row = &rows_.emplace_back(Row{kind, -1, limit, {}, 0, false});
    ++row->checked;
    // A NaN error is worse than any number.
    const bool worse = std::isnan(error) || row->error < 0 ||
                       (std::isinf(limit) ? error > row->error : error / limit > row->error / row->limit);
    if (worse && !std::isnan(row->error)) *row = {kind, error, limit, place, row->checked, row->failed};
    if (!(error <= limit)) row->failed = true;
  }
  bool print(const std::string& title) const {
    std::printf("%s\n", title.c_str());
    bool passed = true;
    for (const Row& row : rows_) {
      const char* row_place = row.place.c_str();
      if (std::isinf(row.limit))
        std::printf("  %-34s %10.3g  not judged      %s\n", row.kind.c_str(), row.error, row_place);
      else
        std::printf("  %-34s %10.3g  limit %8.2g  %s  %s\n", row.kind.c_str(), row.error, row.limit,
                    row.failed ? "FAILED" : "ok", row_place);
      passed = passed && !row.failed;
    }
    if (rows_.empty()) std::printf("  nothing to compare\n");
    return passed && !rows_.empty();
  }

 private:
  struct Row {
    std::string kind;
    double error, limit;
    std::string place;
    int checked;
    bool failed;
  };
  std::vector<Row> rows_;
};

template <class T>
double largest_difference(const std::vector<T>& ours, const std::vector<double>& expected) {
  if (ours.size() != expected.size()) return NAN;
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(ours[i]) - expected[i]);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

template <class T>
double length(const std::vector<T>& v) {
  double sum = 0;
  for (const T x : v) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

double relative_to(double difference, double scale) {
  return difference == 0 ? 0 : difference / scale;
}

double relative(double ours, double expected) {
  const double difference = std::fabs(ours - expected);
  return expected == 0 ? difference : difference / std::fabs(expected);
}

template <class T>
class Checker {
 public:
  Checker(const RunConfig& config, const SafetensorsFile& input, const SafetensorsFile& expected, const Limits& limits)
      : limits_(limits), batches_(read_batches(input, config)), expected_(expected), learner_(config, Weights::zero) {
    load(input);
  }

  bool run(const std::string& title) {
    check_first();
    check_run();
    check_final();
    return report_.print(title);
  }

 private:
  int layer_of(std::size_t moe) const { return learner_.config.model.n_dense_layers + static_cast<int>(moe); }
  std::string layer_name(std::size_t moe) const { return "layers." + std::to_string(layer_of(moe)); }

  void load(const SafetensorsFile& input) {
    for (const ParameterTensor& tensor : learner_.parameters.tensors()) {
      const TensorView& view = input.at(tensor.name);
      if (view.shape != tensor.shape)
        throw std::runtime_error(input.path() + ": " + tensor.name + " has another shape than the settings ask for");
      const std::vector<double> values = view.doubles();
      learner_.parameters.scatter(tensor, std::vector<T>(values.begin(), values.end()), learner_.parameters.weights);
    }
    for (std::size_t i = 0; i < learner_.expert_bias.size(); ++i)
      if (const TensorView* view = input.find(layer_name(i) + ".moe.expert_bias")) {
        const std::vector<double> values = view->doubles();
        if (values.size() != learner_.expert_bias[i].size())
          throw std::runtime_error(input.path() + ": " + view->name + " does not have one value per expert");
        learner_.expert_bias[i].assign(values.begin(), values.end());
      }
  }

  std::optional<double> scalar(const std::string& name) const {
    const TensorView* view = expected_.find(name);
    if (!view) return std::nullopt;
    return view->doubles().at(0);
  }

  void check_first() {
    const Losses losses = learner_.forward(batches_[0], false, clock_);
    learner_.backward(batches_[0], clock_);
    if (const TensorView* view = expected_.find("first.logits")) {
      const Matrix<const T> logits = learner_.model().logits();
      const std::vector<T> ours(logits.data, logits.data + view->elements());
      report_.add("logits", largest_difference(ours, view->doubles()), limits_.logits);
    }
    if (const auto ce = scalar("first.ce_loss"))
      report_.add("first ce_loss", std::fabs(losses.ce - *ce), limits_.first_loss);
    if (const auto aux = scalar("first.aux_loss"))
      report_.add("first aux_loss", std::fabs(losses.aux - *aux), limits_.aux);
    for (std::size_t i = 0; i < learner_.expert_bias.size(); ++i) check_router(i);
    for (const ParameterTensor& tensor : learner_.parameters.tensors()) check_gradient(tensor);
  }

  void check_router(std::size_t moe) {
    const RouterActivations<T>& router = learner_.model().moe()[moe].router;
    const std::string prefix = "first." + layer_name(moe) + ".router.", place = layer_name(moe);
    if (const TensorView* view = expected_.find(prefix + "scores")) {
      const std::vector<T> ours(router.scores.data, router.scores.data + view->elements());
      report_.add("router scores", largest_difference(ours, view->doubles()), limits_.scores, place);
    }
    if (const TensorView* view = expected_.find(prefix + "counts"))
      report_.add("first tokens_per_expert", largest_difference(router.tokens_per_expert, view->doubles()),
                  limits_.first_counts, place);
    // Compared in ascending order of experts, which our choices have except with forced balance.
    std::vector<std::int32_t> ids = router.ids;
    std::vector<T> mix(router.mix.data, router.mix.data + ids.size());
    sort_choices(ids, mix);
    const TensorView* expected_ids = expected_.find(prefix + "ids");
    if (!expected_ids) return;
    const std::vector<std::int64_t> want = expected_ids->integers();
    if (want.size() != ids.size()) throw std::runtime_error(expected_.path() + ": " + prefix + "ids has another size");
    std::size_t differ = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) differ += ids[k] != want[k];
    report_.add("router ids that differ", static_cast<double>(differ), limits_.first_counts, place);
    if (const TensorView* view = expected_.find(prefix + "weights"))
      report_.add("mixing weights", largest_difference(mix, view->doubles()), limits_.mix, place);
  }

  void sort_choices(std::vector<std::int32_t>& ids, std::vector<T>& mix) const {
    const std::size_t k = static_cast<std::size_t>(learner_.config.router.top_k);
    for (std::size_t t = 0; t < ids.size(); t += k)
      for (std::size_t i = 1; i < k; ++i)
        for (std::size_t j = i; j > 0 && ids[t + j] < ids[t + j - 1]; --j) {
          std::swap(ids[t + j], ids[t + j - 1]);
          std::swap(mix[t + j], mix[t + j - 1]);
        }
  }

  void check_gradient(const ParameterTensor& tensor) {
    const std::vector<T> ours = learner_.parameters.gather(tensor, learner_.parameters.gradients);
    if (const TensorView* view = expected_.find("first.grad." + tensor.name)) {
      const std::vector<double> want = view->doubles();
      double largest = 0;
      std::vector<double> difference(ours.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        largest = std::max(largest, std::fabs(want.at(i)));
        difference[i] = static_cast<double>(ours[i]) - want[i];
      }
      // A tensor without a gradient (an unused expert's) must be exactly zero.
      report_.add("gradient, worst entry", relative_to(largest_difference(ours, want), largest), limits_.gradient_entry,
                  tensor.name);
      report_.add("gradient, length of difference", relative_to(length(difference), length(want)),
                  limits_.gradient_length, tensor.name);
    }
    if (const auto want = scalar("first.grad_l2." + tensor.name))
      report_.add("gradient, difference of lengths", relative(length(ours), *want), limits_.gradient_length,
                  tensor.name);
  }

  std::vector<double> series(const char* name) const {
    const TensorView* view = expected_.find(name);
    return view ? view->doubles() : std::vector<double>{};
  }

  void check_run() {
    const std::vector<double> ce = series("run.ce_loss"), aux = series("run.aux_loss"), norm = series("run.grad_norm"),
                              lr = series("run.lr"), counts = series("run.counts"), bias = series("run.expert_bias"),
                              margin = series("run.selection_margin");
    const std::size_t per_step =
        learner_.expert_bias.size() * static_cast<std::size_t>(learner_.config.model.n_experts);
    const std::size_t steps =
        std::max({ce.size(), aux.size(), norm.size(), lr.size(), per_step ? counts.size() / per_step : 0});
    double tokens_differ = 0, choices = 0;
    bool unsafe = false;
    for (std::size_t s = 0; s < steps; ++s) {
      unsafe = unsafe || (s < margin.size() && margin[s] < kUnsafeMargin && sizeof(T) == sizeof(float));
      const double loss_limit = unsafe ? std::max(limits_.loss, kLossAfterUnsafe) : limits_.loss;
      const std::string place = "step " + std::to_string(s);
      const std::string after = unsafe ? " after a near tie" : "";
      const StepResult r = learner_.step(batches_[s % batches_.size()], false, clock_);
      if (s < ce.size()) report_.add("run ce_loss" + after, std::fabs(r.losses.ce - ce[s]), loss_limit, place);
      if (s < aux.size())
        report_.add("run aux_loss" + after, std::fabs(r.losses.aux - aux[s]),
                    unsafe ? std::max(limits_.aux, kLossAfterUnsafe) : limits_.aux, place);
      if (s < norm.size())
        report_.add("run grad_norm" + after, relative(r.grad_norm, norm[s]),
                    unsafe ? std::max(limits_.grad_norm, kLossAfterUnsafe) : limits_.grad_norm, place);
      if (s < lr.size()) report_.add("run lr", relative(r.lr, lr[s]), limits_.lr, place);
      for (std::size_t i = 0; i < learner_.expert_bias.size(); ++i)
        for (std::size_t e = 0; e < learner_.expert_bias[i].size(); ++e) {
          const std::size_t at = s * per_step + i * learner_.expert_bias[i].size() + e;
          const std::uint32_t n = learner_.model().moe()[i].router.tokens_per_expert[e];
          if (at < counts.size()) {
            tokens_differ += std::fabs(n - counts[at]) / 2;  // a moved token is counted twice: missing and extra
            choices += counts[at];
          }
          if (at < bias.size() && !unsafe)
            report_.add("run expert_bias", std::fabs(static_cast<double>(learner_.expert_bias[i][e]) - bias[at]),
                        limits_.bias, place);
        }
    }
    if (!counts.empty())
      report_.add(
          "run tokens to another expert", tokens_differ,
          unsafe ? std::max(limits_.counts_tokens, std::ceil(kTokensAfterUnsafe * choices)) : limits_.counts_tokens);
  }

  void check_final() {
    const double limit = limits_.final_norm;
    for (const ParameterTensor& tensor : learner_.parameters.tensors())
      if (const auto want = scalar("final.norm." + tensor.name))
        report_.add("final parameter length",
                    relative(length(learner_.parameters.gather(tensor, learner_.parameters.weights)), *want), limit,
                    tensor.name);
    if (const auto want = scalar("final.ce_loss"))
      report_.add("final ce_loss", std::fabs(learner_.forward(batches_[0], false, clock_).ce - *want),
                  std::max(limits_.loss, near_tie() ? kLossAfterUnsafe : 0));
  }

  bool near_tie() const {
    const std::vector<double> margin = series("run.selection_margin");
    return sizeof(T) == sizeof(float) &&
           std::any_of(margin.begin(), margin.end(), [](double m) { return m < kUnsafeMargin; });
  }

  Limits limits_;
  std::vector<Batch> batches_;
  const SafetensorsFile& expected_;
  Learner<T> learner_;
  PhaseClock clock_;
  Report report_;
};

bool check_file(RunConfig config, const SafetensorsFile& input, const std::string& path, bool mxfp8) {
  const SafetensorsFile expected(path);
  if (mxfp8) config.precision.experts = Recipe::mxfp8_rceil;
  bool passed = Checker<float>(config, input, expected, mxfp8 ? kMxfp8 : kFloatExact).run(path + ", float");
  passed &= Checker<double>(config, input, expected, mxfp8 ? kDoubleMxfp8 : kDoubleExact).run(path + ", double");
  return passed;
}

bool check_set(const std::string& prefix) {
  const RunConfig config = read_config(prefix + ".json");
  const SafetensorsFile input(prefix + ".input.safetensors");
  bool passed = check_file(config, input, prefix + ".expected.safetensors", false);
  if (const std::string path = prefix + ".mxfp8.safetensors"; std::filesystem::exists(path))
    passed &= check_file(config, input, path, true);
  return passed;
}

}  // namespace
}  // namespace moescope

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: golden_model DIR   (SET.json, SET.input.safetensors, SET.expected.safetensors, ...)\n";
    return 2;
  }
  try {
    bool passed = true;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
      if (entry.path().extension() == ".json")
        passed &= moescope::check_set(entry.path().parent_path() / entry.path().stem());
    std::cout << (passed ? "PASSED\n" : "FAILED\n");
    return passed ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "golden_model: " << error.what() << "\n";
    return 2;
  }
}
