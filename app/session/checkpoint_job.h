// Runs texts through the model of a checkpoint (core/checkpoints) into a recording, which then opens like any other.
#pragma once

#include <QDateTime>
#include <QString>
#include <QStringList>
#include <cstddef>
#include <functional>
#include <vector>

namespace moescope {

struct CheckpointTexts {
  QString folder;     // of the checkpoint
  QStringList files;  // text files and folders of them; each is a domain
  QString prompt;     // a further text; empty: none
  // Folder of another checkpoint that is run on the same texts as run A, this one then as run B; empty: none.
  QString reference = {};
};

// Whether a path is a folder with config.json and weights as transformers writes them, or such a config.json.
bool isCheckpoint(const QString& path);
// The checkpoint's folder of a path for which isCheckpoint() is true.
QString checkpointFolder(const QString& path);

// The checkpoints in the folders below `folder`, in alphabetical order, at most kMostCheckpoints.
struct CheckpointFolder {
  QString path;
  qint64 bytes = 0;  // of its weights
  QDateTime last_change;
};
inline constexpr std::size_t kMostCheckpoints = 1000;
std::vector<CheckpointFolder> checkpointsIn(const QString& folder);

// Parameters, experts, sizes, and the time for 1,000 tokens, measured on one layer of each kind. Takes up to seconds
// for a large model. Throws std::runtime_error if the model or its tokenizer cannot be read.
QString describeCheckpoint(const QString& folder);

// Runs the texts in batches, each a step of the recording at `out`; with a reference through both checkpoints.
// `progress` gets 0..1 and returns false to stop, which keeps the batches until then. Returns whether there is one.
// Throws std::runtime_error.
bool runCheckpoint(const CheckpointTexts& texts, const QString& out, const std::function<bool(double)>& progress);

}  // namespace moescope
