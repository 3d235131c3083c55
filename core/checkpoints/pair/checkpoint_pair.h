// Two checkpoints on the same texts, batch by batch. The frames of the second also show how its choice of experts and
// its predictions differ from those of the first.
//
// A batch is one piece of text, so that a mean over the steps is a mean over pieces. In the frames of B,
// TelemetryFrame::flips counts tokens whose experts differ from those in A, and the reference of the figures fp32_* is
// A. Layers with different numbers of experts or top-k have no flips, and different vocabularies no divergence.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/checkpoint_run.h"

namespace moescope {

// The experts and tensors in which the weights of two checkpoints differ, and |W_B - W_A| / |W_A| over the values of
// each. Values are compared, so stored formats may differ.
struct LayerWeightDifference {
  int layer = 0;                            // among all layers
  std::vector<float> norm_E, difference_E;  // |W_B| of each expert, and |W_B - W_A| / |W_A|
};
struct TensorDifference {
  std::string name;
  double difference = 0;
};
struct WeightDifference {
  std::vector<LayerWeightDifference> layers;  // MoE layers whose experts have the same shapes
  std::vector<TensorDifference> tensors;      // other tensors that differ, the largest difference first
  std::size_t compared_tensors = 0;           // other tensors with the same name and shape in both
  // "weights differ in 1 of 64 experts: layer 3 expert 5 by 12 %; and in 0 of 85 other tensors"
  std::string text() const;
};

// `progress` gets the finished share, 0 to 1; if it returns false, the result holds what was compared until then.
// Throws std::runtime_error if a file was shortened meanwhile.
WeightDifference weight_difference(const CheckpointModel& a, const CheckpointModel& b,
                                   const std::function<bool(double)>& progress);

// Throws std::runtime_error if the tokenizer.json of the folders differ, with the first difference:
// "the tokenizers differ: model.vocab.the is 7 in A and 8 in B". Ignores truncation, padding and version, which are not
// read. Does nothing if a folder has no tokenizer.json.
void require_same_tokenizer(const std::string& folder_a, const std::string& folder_b);

class CheckpointPair {
 public:
  // The runs are named after their folders; if both names are equal, each gets the name of the folder above in front.
  // The references must outlive the pair. `sources`: for the settings; TextSources::length is the largest length of a
  // piece. Throws std::runtime_error if no text has two tokens.
  struct Source {
    const CheckpointModel& model;
    std::string folder;
  };
  CheckpointPair(const Source& a, const Source& b, const std::vector<LabelledText>& texts, const TextSources& sources,
                 const Tokenizer* tokenizer);

  const CheckpointRun& a() const { return a_; }
  const CheckpointRun& b() const { return b_; }
  std::int64_t steps() const { return a_.steps(); }
  // The frames of B will show the norm of each expert's weights, and in dB the norm of A's weights divided by the norm
  // of the difference.
  void set_weights(WeightDifference difference) { weights_ = std::move(difference); }
  const WeightDifference& weights() const { return weights_; }

  struct Frames {
    TelemetryFrame a, b;
  };
  Frames step();                             // throws as CheckpointModel::forward
  void show_specialisation(Frames& frames);  // CheckpointRun::show_specialisation() for both

 private:
  void show_weights(TelemetryFrame& frame) const;
  CheckpointRun a_, b_;
  WeightDifference weights_;
};

}  // namespace moescope
