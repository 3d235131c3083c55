// Two checkpoints on the same texts, batch by batch: the frames of both, and in those of the second how its choice of
// experts and its predictions differ from the first one's.
//
// A batch is one piece of text, so that a mean over the steps is a mean over pieces. In the frames of B,
// TelemetryFrame:: flips counts tokens with other experts than in A, and the figures fp32_* have A for the reference.
// Layers whose numbers of experts or top-k differ have no flips, other vocabularies no divergence.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_run.h"
#include "core/checkpoints/pair/weight_difference.h"

namespace moescope {

// The tokenizer.json of two checkpoints must be equal, but for truncation, padding and the version, which are not read.
// Throws std::runtime_error with the first difference: "the tokenizers differ: model.vocab.the is 7 in A and 8 in B".
// Does nothing if a folder has none.
void require_same_tokenizer(const std::string& folder_a, const std::string& folder_b);

class CheckpointPair {
 public:
  // Sources and names are A's and B's; equal names get the names of the folders above. The references must outlive it.
  // `sources`: for the settings; their length is that of a piece, at most. Throws std::runtime_error: no text has two
  // tokens.
  struct Source {
    const CheckpointModel& model;
    std::string folder;
  };
  CheckpointPair(const Source& a, const Source& b, const std::vector<LabelledText>& texts, const TextSources& sources,
                 const Tokenizer* tokenizer);

  const CheckpointRun& a() const { return a_; }
  const CheckpointRun& b() const { return b_; }
  std::int64_t steps() const { return a_.steps(); }
  // Shown in the frames of B: the length of each expert's weights, and its ratio to their difference from A's.
  void set_weights(WeightDifference difference) { weights_ = std::move(difference); }
  const WeightDifference& weights() const { return weights_; }

  struct Frames {
    TelemetryFrame a, b;
  };
  Frames step();                             // throws as CheckpointModel::forward
  void show_specialisation(Frames& frames);  // as CheckpointRun's

 private:
  void show_weights(TelemetryFrame& frame) const;
  CheckpointRun a_, b_;
  WeightDifference weights_;
};

}  // namespace moescope
