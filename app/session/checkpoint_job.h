// Runs texts through the model of a checkpoint (core/checkpoints) and records the run.
#pragma once

#include <QDateTime>
#include <QString>
#include <QStringList>
#include <cstddef>
#include <functional>
#include <vector>

namespace moescope {

struct CheckpointTexts {
  QString folder;     // folder of the checkpoint
  QStringList files;  // text files, and folders of them; each is a domain
  QString prompt;     // one more text; empty: none
  // Folder of another checkpoint, which becomes run A on the same texts; `folder` is then run B. Empty: none.
  QString reference = {};
};

// True for a folder with config.json and weights in the form that transformers writes, or for such a config.json.
bool isCheckpoint(const QString& path);
// Returns the checkpoint's folder for a path for which isCheckpoint() is true.
QString checkpointFolder(const QString& path);

// A folder with a checkpoint. checkpointsIn() returns those below `folder` by name, at most kMaxCheckpoints.
struct CheckpointFolder {
  QString path;
  qint64 bytes = 0;  // size of the weights
  QDateTime last_change;
};
inline constexpr std::size_t kMaxCheckpoints = 1000;
std::vector<CheckpointFolder> checkpointsIn(const QString& folder);

// Returns a text with parameters, experts, sizes, and the time for 1,000 tokens, which is measured on one layer of each
// kind. Takes up to seconds for a large model. Throws std::runtime_error if the model or its tokenizer cannot be read.
QString describeCheckpoint(const QString& folder);

// Runs the texts in batches, each a step of the recording at `out`; with a reference, through both checkpoints. Calls
// progress(0..1); if it returns false, stops and keeps the batches that were run. Returns true if there is at least
// one. Throws std::runtime_error.
bool runCheckpoint(const CheckpointTexts& texts, const QString& out, const std::function<bool(double)>& progress);

}  // namespace moescope
