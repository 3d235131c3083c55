// Compares the results of checkpoints with those of transformers: golden_checkpoints DIR, which holds folders with
// config.json, .safetensors and expected.safetensors.
//
// Keys of expected.safetensors, all with a prefix P that may be empty or "NAME.": Pinput_ids [B, S] or [T]; Plogits [B,
// S, V] or Plogits_lastN [N, V]; Phidden.I after layer I; Ploss [1]; Ptopk_index.L and Ptopk_weight.L [T, K] of layer
// L; dequantized.TENSOR, equal to the bit. A model that the trainer can hold begins to train with these losses. Absent
// keys are not compared; unknown keys are errors. Keys of cosines.safetensors, which make_cosines.py writes: Pcosine.L
// [E, E]. A format plan is compared with the best of all assignments. Exit status: 0 if all agree, 1 if something
// differs, 2 if a file cannot be read.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoints/ablation/format_plan.h"
#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/training_start.h"
#include "core/files/tensors/safetensors.h"
#include "core/model/text/dataset.h"
#include "core/training/trainer.h"
#include "tests/golden/tally.h"

namespace {

using namespace moescope;

constexpr double kLogits = 1e-4, kLoss = 1e-5, kCosine = 1e-5;
constexpr double kHidden = 1e-4, kWeights = 1e-5;  // absolute, but relative for values above 1

// Keeps everything that a pass reports.
class Everything : public PassWatch {
 public:
  void hidden(int index, ConstMatrix<float> x) override { hidden_[index].assign(x.data, x.data + x.size()); }
  void routed(int layer, const RoutedTokens& tokens) override { routed_[layer] = tokens; }
  void logits(Index, ConstMatrix<float> part) override {
    vocab_ = part.cols;
    logits_.insert(logits_.end(), part.data, part.data + part.size());
  }

  std::map<int, std::vector<float>> hidden_;
  std::map<int, RoutedTokens> routed_;
  std::vector<float> logits_;
  Index vocab_ = 0;
};

struct Texts {
  std::vector<std::int32_t> ids;
  Index sequences = 1, length = 0;
};

// Returns the mean loss of the next tokens of all sequences.
double loss_of(const Everything& pass, const Texts& texts) {
  double sum = 0;
  Index count = 0;
  for (Index t = 0; t < texts.sequences * texts.length; ++t) {
    if ((t + 1) % texts.length == 0) continue;
    const float* logits = pass.logits_.data() + t * pass.vocab_;
    const double largest = *std::max_element(logits, logits + pass.vocab_);
    double total = 0;
    for (Index v = 0; v < pass.vocab_; ++v) total += std::exp(logits[v] - largest);
    sum += largest + std::log(total) - logits[texts.ids[static_cast<std::size_t>(t) + 1]];
    ++count;
  }
  return sum / static_cast<double>(count);
}

void compare(const std::string& what, const std::vector<float>& found, const std::vector<float>& want, double tolerance,
             bool relative = false) {
  Tally tally(what);
  tally.integer(0, static_cast<std::int64_t>(found.size()), static_cast<std::int64_t>(want.size()));
  for (std::size_t i = 0; i < std::min(found.size(), want.size()); ++i)
    tally.within(i, found[i], want[i], relative ? tolerance * std::max(1.0, std::fabs(double{want[i]})) : tolerance);
}

void compare_ids(const std::string& what, const std::vector<std::int32_t>& found, const TensorView& expected) {
  Tally tally(what);
  std::vector<std::int64_t> want = expected.integers();
  tally.integer(0, static_cast<std::int64_t>(found.size()), static_cast<std::int64_t>(want.size()));
  const auto top_k = static_cast<std::ptrdiff_t>(expected.shape.back());
  for (auto at = want.begin(); at < want.end(); at += top_k) std::sort(at, at + top_k);
  for (std::size_t i = 0; i < std::min(found.size(), want.size()); ++i) tally.integer(i, found[i], want[i]);
}

// Returns values as FP32; those of packed experts are transposed as in transformers: [E, in, out].
std::vector<float> dequantized(const TensorFile& file, const std::string& name, const SharedFailure& failure) {
  const TensorView* packed = file.find(name + "_blocks");
  const TensorView& tensor = packed ? *packed : file.at(name);
  const Index count = tensor.shape.size() == 3 ? static_cast<Index>(tensor.shape[0]) : 1;
  std::vector<float> all;
  for (Index e = 0; e < count; ++e) {
    const StoredMatrix matrix(tensor, e, false, failure);
    std::vector<float> values(static_cast<std::size_t>(matrix.outputs() * matrix.inputs()));
    matrix.read_outputs(0, matrix.outputs(), values.data());
    if (!packed) all.insert(all.end(), values.begin(), values.end());
    for (Index i = 0; packed && i < matrix.inputs(); ++i)
      for (Index o = 0; o < matrix.outputs(); ++o)
        all.push_back(values[static_cast<std::size_t>(o * matrix.inputs() + i)]);
  }
  return all;
}

void compare_dequantized(const CheckpointModel& model, const TensorView& expected) {
  const std::string name = expected.name.substr(std::string("dequantized.").size());
  const auto failure = std::make_shared<ReadFailure>();
  const std::vector<float> found = dequantized(model.file(), name, failure), want = expected.floats();
  Tally tally(name);
  tally.integer(0, static_cast<std::int64_t>(found.size()), static_cast<std::int64_t>(want.size()));
  for (std::size_t i = 0; i < std::min(found.size(), want.size()); ++i) tally.value(i, found[i], want[i]);
}

Texts texts_of(const TensorView& ids) {
  Texts texts;
  for (const std::int64_t id : ids.integers()) texts.ids.push_back(static_cast<std::int32_t>(id));
  texts.length = static_cast<Index>(ids.shape.back());
  texts.sequences = static_cast<Index>(ids.elements()) / std::max<Index>(1, texts.length);
  return texts;
}

// Compares the expectation `key`, without its prefix. Returns false if the key is unknown.
bool compare_key(const Everything& pass, const Texts& texts, const std::string& key, const TensorView& expected) {
  const auto number = [&](const char* before) { return std::stoi(key.substr(std::string(before).size())); };
  if (key == "logits") {
    compare(expected.name, pass.logits_, expected.floats(), kLogits);
  } else if (key.starts_with("logits_last")) {
    const Index values = number("logits_last") * pass.vocab_;
    compare(expected.name, {pass.logits_.end() - values, pass.logits_.end()}, expected.floats(), kLogits);
  } else if (key.starts_with("hidden.")) {
    compare(expected.name, pass.hidden_.at(number("hidden.")), expected.floats(), kHidden, true);
  } else if (key == "loss") {
    compare(expected.name, {static_cast<float>(loss_of(pass, texts))}, expected.floats(), kLoss);
  } else if (key.starts_with("topk_index.")) {
    compare_ids(expected.name, pass.routed_.at(number("topk_index.")).ids, expected);
  } else if (key.starts_with("topk_weight.")) {
    compare(expected.name, pass.routed_.at(number("topk_weight.")).mix, expected.floats(), kWeights, true);
  } else {
    return false;
  }
  return true;
}

// Compares the similarity of the experts' outputs; `key` is "cosine.L".
void compare_cosines(const CheckpointModel& model, const Texts& texts, const std::string& key,
                     const TensorView& expected) {
  const ExpertSimilarity found = similarity_of_experts(
      model, {{"text", texts.ids}}, {.length = texts.length, .pieces = 1}, [](int, int) { return true; });
  const LayerSimilarity& layer = *found.find(std::stoi(key.substr(std::string("cosine.").size())));
  std::vector<float> cosines;
  for (int i = 0; i < layer.experts(); ++i)
    for (int j = 0; j < layer.experts(); ++j) cosines.push_back(static_cast<float>(layer.cosine(i, j).mean));
  compare(expected.name, cosines, expected.floats(), kCosine);
}

void check_cosines(const std::string& folder, const CheckpointModel& model, const SafetensorsFile& expected) {
  const std::filesystem::path path = std::filesystem::path(folder) / "cosines.safetensors";
  if (!std::filesystem::exists(path)) return;
  const SafetensorsFile cosines(path.string());
  for (const TensorView& tensor : cosines.tensors()) {
    const auto key = tensor.name.find("cosine.");
    compare_cosines(model, texts_of(expected.at(tensor.name.substr(0, key) + "input_ids")), tensor.name.substr(key),
                    tensor);
  }
}

// Returns the loss of the first step of a training that begins with this checkpoint, on these texts.
double first_loss(const RunConfig& run, const Texts& texts) {
  RunConfig config = run;
  config.telemetry.texts_every = config.telemetry.sample_every = config.telemetry.specialisation_every = 0;
  Batch batch = empty_batch(static_cast<int>(texts.sequences), static_cast<int>(texts.length) - 1);
  for (int row = 0; row < batch.sequences; ++row)
    fill_sequence(batch, row, 0, std::span(texts.ids).subspan(static_cast<std::size_t>(row * texts.length)));
  return double{Trainer(config).step(batch).ce_loss};
}

void check_training(const std::string& folder, const SafetensorsFile& expected) {
  RunConfig config;
  try {
    config = TrainingStart(folder).config();
  } catch (const std::exception& reason) {
    std::printf("  cannot be trained: %s\n", reason.what());
    return;
  }
  for (const TensorView& ids : expected.tensors()) {
    if (!ids.name.ends_with("input_ids")) continue;
    const std::string prefix = ids.name.substr(0, ids.name.size() - std::string("input_ids").size());
    if (const TensorView* loss = expected.find(prefix + "loss"))
      compare(prefix + "loss of the first step", {static_cast<float>(first_loss(config, texts_of(ids)))},
              loss->floats(), kLoss);
  }
}

// Figures of the groups' formats on pieces of text; `exact`: the predictions for them in FP32.
PieceFigures figures_of(CheckpointModel& model, const std::vector<TextPiece>& pieces,
                        const std::vector<Predictions>& exact, const std::vector<WeightGroup>& groups) {
  PieceFigures figures;
  round_weights(model, groups);
  for (std::size_t i = 0; i < pieces.size(); ++i) figures.add(exact[i], predict(model, pieces[i].ids));
  model.round_nothing();
  return figures;
}

// Compares a format plan of the attention of every layer with the best of all assignments of three formats: of those
// within the budget, the one with the smallest divergence. Only for models that have several texts.
void check_plan(CheckpointModel& model, const std::map<std::string, std::pair<Texts, Everything>>& passes) {
  if (passes.size() < 2) return;
  std::vector<LabelledText> texts;
  for (const auto& [prefix, pass] : passes) texts.push_back({prefix, pass.first.ids});
  const ComparedTexts which{.length = 32, .pieces = static_cast<int>(texts.size())};
  std::vector<TextPiece> ranking, judging;
  std::vector<Predictions> exact_ranking, exact_judging;
  for (const TextPiece& piece : pieces_of(texts, which)) {
    const bool ranks_here = ranking.size() == judging.size();  // every second piece
    (ranks_here ? ranking : judging).push_back(piece);
    (ranks_here ? exact_ranking : exact_judging).push_back(predict(model, piece.ids));
  }
  PlanRequest request{.bits = 15.5, .formats = {Recipe::mxfp4, Recipe::mxfp8_rceil, Recipe::bf16}};
  for (int i = 0; i < kNumGemmClasses; ++i)
    if (i != static_cast<int>(GemmClass::attention)) request.kept_classes.push_back(static_cast<GemmClass>(i));
  const FormatPlan plan = plan_formats(model, texts, which, request, [](int, int) { return true; });
  std::vector<WeightGroup> groups = plan.groups, best;
  std::vector<WeightGroup*> attention;
  for (WeightGroup& group : groups)
    if (group.gemm_class == GemmClass::attention) attention.push_back(&group);
  double smallest = INFINITY;
  const auto assignments = static_cast<int>(std::pow(3, attention.size()));
  for (int assignment = 0; assignment < assignments; ++assignment) {
    int digits = assignment;
    for (WeightGroup* group : attention) {
      group->format = request.formats[static_cast<std::size_t>(digits % 3)];
      digits /= 3;
    }
    if (bits_per_weight(groups) > request.bits) continue;
    const double divergence = figure_of_pieces(figures_of(model, ranking, exact_ranking, groups).divergence).mean;
    if (divergence < smallest) best = groups;
    smallest = std::min(smallest, divergence);
  }
  std::vector<double> behind = figures_of(model, judging, exact_judging, plan.groups).loss_change;
  const std::vector<double> best_changes = figures_of(model, judging, exact_judging, best).loss_change;
  for (std::size_t i = 0; i < behind.size(); ++i) behind[i] -= best_changes[i];
  const FigureOfPieces difference = figure_of_pieces(behind);
  std::printf(
      "  plan of attention: divergence %.3g, best of %d assignments %.3g; loss against that of the best %.2g +- %.2g\n",
      plan.ranking_divergence.mean, assignments, smallest, difference.mean, difference.interval);
  Tally("plan").within(0, std::max(0.0, difference.mean), 0, difference.interval);
}

void check(const std::string& folder) {
  CheckpointModel model(folder);
  const SafetensorsFile expected((std::filesystem::path(folder) / "expected.safetensors").string());
  std::map<std::string, std::pair<Texts, Everything>> passes;  // by prefix
  for (const TensorView& tensor : expected.tensors())
    if (tensor.name.ends_with("input_ids")) {
      const std::string prefix = tensor.name.substr(0, tensor.name.size() - std::string("input_ids").size());
      auto& [texts, pass] = passes[prefix];
      texts = texts_of(tensor);
      model.forward(texts.ids, texts.sequences, texts.length, pass);
    }
  if (passes.empty()) throw std::runtime_error("expected.safetensors has no input_ids");
  for (const TensorView& tensor : expected.tensors()) {
    if (tensor.name.ends_with("input_ids")) continue;
    if (tensor.name.starts_with("dequantized.")) {
      compare_dequantized(model, tensor);
      continue;
    }
    bool known = false;
    for (const auto& [prefix, run] : passes)
      if (!known && tensor.name.starts_with(prefix))
        known = compare_key(run.second, run.first, tensor.name.substr(prefix.size()), tensor);
    if (!known) throw std::runtime_error("expected.safetensors has '" + tensor.name + "', which is not known");
  }
  check_cosines(folder, model, expected);
  check_training(folder, expected);
  check_plan(model, passes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_checkpoints DIR\n");
    return 2;
  }
  try {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
      if (entry.path().filename() != "expected.safetensors") continue;
      std::printf("%s\n", entry.path().parent_path().c_str());
      check(entry.path().parent_path());
    }
  } catch (const std::exception& error) {
    std::printf("  failed: %s\n", error.what());
    return 2;
  }
  std::printf("%zu values compared, %zu differ\n", Tally::total_compared, Tally::total_differ);
  if (Tally::total_compared == 0) return 2;
  return Tally::total_differ ? 1 : 0;
}
