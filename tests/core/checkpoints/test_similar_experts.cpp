// Similarity of the outputs of a checkpoint's experts.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/checkpoints/ablation/scans.h"
#include "core/numerics/index.h"
#include "core/numerics/threads.h"
#include "tests/support/problem_of.h"
#include "tests/support/small_checkpoint.h"

namespace moescope {
namespace {

constexpr int kExperts = static_cast<int>(SmallCheckpoint::kExperts);
constexpr std::size_t kDim = SmallCheckpoint::kDim, kWidth = SmallCheckpoint::kWidth;

bool never_stopped(int, int) {
  return true;
}

// Collects the inputs of the experts of one layer.
class Inputs : public PassWatch {
 public:
  explicit Inputs(int layer) : layer_(layer) {}
  void expert_input(int layer, ConstMatrix<float> h) override {
    for (Index t = 0; layer == layer_ && t < h.rows; ++t) rows.emplace_back(h.row(t), h.row(t) + h.cols);
  }
  std::vector<std::vector<double>> rows;

 private:
  int layer_;
};

std::vector<double> times(const StoredLinear& linear, const std::vector<double>& x) {
  std::vector<float> w(size(static_cast<int>(linear.outputs())) * x.size());
  linear.weight.read_outputs(0, linear.outputs(), w.data());
  std::vector<double> y(w.size() / x.size());
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += static_cast<double>(w[o * x.size() + i]) * x[i];
  return y;
}

// W2 (silu(W1 x) * W3 x)
std::vector<double> output_of(const StoredFeedForward& expert, const std::vector<double>& x) {
  std::vector<double> h1 = times(expert.gate, x);
  const std::vector<double> h3 = times(expert.up, x);
  for (std::size_t i = 0; i < h1.size(); ++i) h1[i] *= h3[i] / (1 + std::exp(-h1[i]));
  return times(expert.down, h1);
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

TEST(SimilarExperts, CosinesAreThoseComputedByHand) {
  const SmallCheckpoint folder("similar");
  const CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(48)}};
  const ComparedTexts which{.length = 16, .pieces = 3};
  const ExpertSimilarity found = similarity_of_experts(model, texts, which, never_stopped);
  EXPECT_EQ(found.pieces, 3);
  ASSERT_EQ(found.layers.size(), SmallCheckpoint::kLayers);
  for (const LayerSimilarity& layer : found.layers) {
    const auto& experts = model.layers()[size(layer.layer())].moe.experts;
    for (int i = 0; i < kExperts; ++i)
      for (int j = 0; j < kExperts; ++j) {
        std::vector<double> by_piece;
        for (const auto& [text, piece] : pieces_of(texts, which)) {
          Inputs inputs(layer.layer());
          model.forward(piece, 1, std::ssize(piece), inputs);
          double sum = 0;
          for (const auto& x : inputs.rows)
            sum += cosine(output_of(experts[size(i)], x), output_of(experts[size(j)], x));
          by_piece.push_back(sum / static_cast<double>(inputs.rows.size()));
        }
        const FigureOfPieces expected = figure_of_pieces(by_piece);
        EXPECT_NEAR(layer.cosine(i, j).mean, expected.mean, 1e-6) << i << ' ' << j;
        EXPECT_NEAR(layer.cosine(i, j).interval, expected.interval, 1e-6) << i << ' ' << j;
      }
  }
}

// Experts with the same weights have cosine 1, also if the last weight of one is multiplied by a factor; with the
// opposite sign they have -1.
TEST(SimilarExperts, CopiesAreFound) {
  const SmallCheckpoint folder("copies");
  SafetensorsWriter writer;
  for (const auto& [name, shape] : SmallCheckpoint::shapes()) {
    std::string source = name;
    double factor = 0.3;
    const auto copy_of = [&](const std::string& from, const std::string& to, double times) {
      const auto at = source.find(from);
      if (at == std::string::npos) return;
      source.replace(at, from.size(), to);
      if (name.ends_with("w2.weight")) factor *= times;
    };
    copy_of("experts.3.", "experts.1.", 2);
    copy_of("experts.2.", "experts.0.", -1);
    const RandomStream stream(1, source);
    std::size_t count = 1;
    for (const std::size_t extent : shape) count *= extent;
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(factor * stream.normal(i));
    writer.add(name, DType::f32, shape, std::as_bytes(std::span(values)));
  }
  writer.write(folder.file("model.safetensors"));
  const CheckpointModel model(folder.path());
  const ExpertSimilarity found =
      similarity_of_experts(model, {{"a", SmallCheckpoint::some_ids(20)}}, {.length = 20, .pieces = 1}, never_stopped);
  for (const LayerSimilarity& layer : found.layers) {
    EXPECT_NEAR(layer.cosine(1, 3).mean, 1, 1e-6);
    EXPECT_NEAR(layer.cosine(0, 2).mean, -1, 1e-6);
    EXPECT_EQ(layer.most_similar(1), 3);
    EXPECT_EQ(layer.most_similar(3), 1);
    EXPECT_TRUE(std::isnan(layer.cosine(1, 3).interval));  // one piece
  }
}

TEST(SimilarExperts, TheSameWithAnyNumberOfThreads) {
  const SmallCheckpoint folder("threads");
  const CheckpointModel model(folder.path());
  const auto measured = [&](int threads) {
    set_num_threads(threads);
    const std::string json = similarity_json(similarity_of_experts(model, {{"a", SmallCheckpoint::some_ids(64)}},
                                                                   {.length = 32, .pieces = 2}, never_stopped));
    set_num_threads(0);
    return json;
  };
  EXPECT_EQ(measured(1), measured(3));
}

TEST(SimilarExperts, ARecordingKeepsThem) {
  const SmallCheckpoint folder("kept_similarity");
  const CheckpointModel model(folder.path());
  const ExpertSimilarity found =
      similarity_of_experts(model, {{"a", SmallCheckpoint::some_ids(32)}}, {.length = 16, .pieces = 2}, never_stopped);
  const auto read = similarity_in(similarity_json(found));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->pieces, 2);
  ASSERT_EQ(read->layers.size(), found.layers.size());
  const LayerSimilarity *stored = read->find(1), *written = found.find(1);
  ASSERT_TRUE(stored && written);
  EXPECT_NEAR(stored->cosine(0, 3).mean, written->cosine(0, 3).mean, 5e-7);
  EXPECT_NEAR(stored->cosine(3, 2).interval, written->cosine(2, 3).interval, 5e-7);
  EXPECT_EQ(stored->cosine(2, 2).mean, 1);
  EXPECT_EQ(stored->most_similar(0), written->most_similar(0));
  EXPECT_EQ(read->find(7), nullptr);
  for (const char* none :
       {"no JSON", R"({"pieces": 1})", R"({"pieces": 1, "layers": [{"layer": 0, "experts": 3, "cosines": [[1, 0]]}]})",
        R"({"pieces": 1, "layers": [{"layer": 0, "experts": 2000000, "cosines": []}]})"})
    EXPECT_FALSE(similarity_in(none)) << none;
}

TEST(SimilarExperts, Stopped) {
  const SmallCheckpoint folder("stopped_similarity");
  const CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(32)}};
  int passes = 0;
  const auto stop = [&](int done, int total) {
    passes = total;
    return done < 1;
  };
  EXPECT_TRUE(similarity_of_experts(model, texts, {.length = 16, .pieces = 2}, stop).layers.empty());
  EXPECT_EQ(passes, 2);
}

}  // namespace
}  // namespace moescope
