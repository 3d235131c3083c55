#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "core/checkpoints/ablation/scans.h"
#include "core/checkpoints/stored_matrix.h"
#include "core/frame/specialisation.h"
#include "core/numerics/gemm.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kOutputs = Index{1} << 26;  // values of all experts' outputs that are held at a time
constexpr std::size_t kRows = 16;           // rows of a task

void normalize_row(float* row, Index width) {
  double squares = 0;
  for (Index i = 0; i < width; ++i) squares += row[i] * static_cast<double>(row[i]);
  if (squares == 0) return;
  const auto factor = static_cast<float>(1 / std::sqrt(squares));
  for (Index i = 0; i < width; ++i) row[i] *= factor;
}

// Computes the mean cosines for one piece of text, [E, E] for each layer.
class SimilarityWatch : public PassWatch {
 public:
  explicit SimilarityWatch(const CheckpointModel& model) : model_(model) {}

  void expert_input(int layer, ConstMatrix<float> h) override {
    const StoredExperts& moe = model_.layers()[size(layer)].moe;
    const auto experts = std::ssize(moe.experts);
    const Index at_once = std::clamp<Index>(kOutputs / (experts * h.cols), 1, h.rows);
    const FloatMatrix sum(experts, experts);
    std::fill_n(sum->data, sum->size(), 0.0f);
    for (Index first = 0; first < h.rows; first += at_once)
      add_cosines(moe, h.row_block(first, std::min(at_once, h.rows - first)), *sum);
    std::vector<double>& mean = layers_EE.emplace_back();
    for (Index i = 0; i < sum->size(); ++i) mean.push_back(sum->data[i] / static_cast<double>(h.rows));
  }

  std::vector<std::vector<double>> layers_EE;

 private:
  // Each expert has one row that holds its outputs of all tokens, one token after the other, so that one matrix product
  // sums over all tokens.
  static void add_cosines(const StoredExperts& moe, ConstMatrix<float> h, const Matrix<float>& sum_EE) {
    const FloatMatrix outputs(sum_EE.rows, h.rows * h.cols);
    parallel_for(to_int(sum_EE.rows), [&](int e) {
      const Matrix<float> y(outputs->row(e), h.rows, h.cols);
      feed_forward_forward(moe.experts[size(e)], h, y);
      for (Index t = 0; t < y.rows; ++t) normalize_row(y.row(t), y.cols);
    });
    parallel_slices(static_cast<std::size_t>(sum_EE.rows), kRows, [&](std::size_t first, std::size_t last) {
      const Index row = first, rows = last - first;
      gemm(Trans::no, Trans::yes, 1.0f, outputs->row_block(row, rows), *outputs, 1.0f, sum_EE.row_block(row, rows));
    });
  }

  const CheckpointModel& model_;
};

// Means over the pieces and sums of squared deviations from them, so that memory does not grow with the pieces.
struct Sums {
  std::vector<double> mean_EE, squares_EE;
  void add(const std::vector<double>& values_EE, double pieces) {
    mean_EE.resize(values_EE.size());
    squares_EE.resize(values_EE.size());
    for (std::size_t i = 0; i < values_EE.size(); ++i) {
      const double from_before = values_EE[i] - mean_EE[i];
      mean_EE[i] += from_before / pieces;
      squares_EE[i] += from_before * (values_EE[i] - mean_EE[i]);
    }
  }
};

}  // namespace

ExpertSimilarity similarity_of_experts(const CheckpointModel& model, const std::vector<LabelledText>& texts,
                                       const ComparedTexts& which, const ScanProgress& progress) {
  const std::vector<int> layers = model.moe_layers();
  if (layers.empty()) throw std::runtime_error("no layer has experts");
  if (!fits_coactivation(layers.size(), size(model.config().experts)))
    throw std::runtime_error("the model has too many experts to compare each with each");
  const auto pieces = pieces_of(texts, which);
  std::vector<Sums> sums(layers.size());
  double done = 0;
  for (const auto& [text, piece] : pieces) {
    SimilarityWatch watch(model);
    model.forward(piece, 1, std::ssize(piece), watch);
    ++done;
    for (std::size_t l = 0; l < layers.size(); ++l) sums[l].add(watch.layers_EE[l], done);
    if (!progress(static_cast<int>(done), to_int(pieces.size()))) return {};
  }
  ExpertSimilarity found{.pieces = to_int(pieces.size()), .layers = {}};
  for (std::size_t l = 0; l < layers.size(); ++l) {
    LayerSimilarity& layer = found.layers.emplace_back(layers[l], model.config().experts);
    for (int i = 0; i < layer.experts(); ++i)
      for (int j = i + 1; j < layer.experts(); ++j) {
        const std::size_t pair = size(i * layer.experts() + j);
        layer.set(i, j, figure_of_sums(done, sums[l].mean_EE[pair], sums[l].squares_EE[pair]));
      }
  }
  return found;
}

}  // namespace moescope
