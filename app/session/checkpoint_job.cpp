#include "app/session/checkpoint_job.h"

#include <QDir>
#include <QFileInfo>
#include <algorithm>
#include <memory>
#include <utility>

#include "core/checkpoints/checkpoint_folder.h"
#include "core/checkpoints/checkpoint_run.h"
#include "core/checkpoints/checkpoint_tokenizer.h"
#include "core/checkpoints/pair/checkpoint_pair.h"
#include "core/files/text/text_escape.h"
#include "core/recording/recording.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

// One piece for each batch, so that a short text has several steps, and each step has one domain.
constexpr int kSequences = 1;

TextSources sourcesOf(const CheckpointTexts& request) {
  TextSources sources;
  for (const QString& path : request.files) sources.texts.push_back(path.toStdString());
  if (!request.prompt.trimmed().isEmpty()) sources.prompt = request.prompt.toStdString();
  return sources;
}

using Frame = std::shared_ptr<const TelemetryFrame>;

constexpr double kShareOfWeights = 0.1;  // share of the progress: the weights are read once, before the first batch

using Notes = std::vector<std::string>;

Notes joinedNotes(const Notes& model_notes, const Notes& tokenizer_notes, const Notes& text_notes) {
  Notes all = model_notes;
  all.insert(all.end(), tokenizer_notes.begin(), tokenizer_notes.end());
  all.insert(all.end(), text_notes.begin(), text_notes.end());
  return all;
}

void begin(RecordingWriter& writer, const CheckpointRun& run, const Notes& notes) {
  writer.add_run(run.info());
  writer.write(Marker{run.info().run, 0, kSettingsMarker, run.settings()});
  for (const std::string& note : notes) writer.write(Marker{run.info().run, 0, "event", note});
}

bool runPair(const CheckpointTexts& request, const QString& out, const std::function<bool(double)>& progress) {
  const std::string folders[] = {request.reference.toStdString(), request.folder.toStdString()};
  require_same_tokenizer(folders[0], folders[1]);
  const CheckpointModel a(folders[0]), b(folders[1]);
  const CheckpointTokenizer opened = open_checkpoint_tokenizer(folders[1]);
  const TextSources sources = sourcesOf(request);
  const ReadTexts read = read_all(sources, &opened.tokenizer);
  CheckpointPair pair({a, folders[0]}, {b, folders[1]}, read.texts, sources, &opened.tokenizer);
  bool goes_on = true;
  pair.set_weights(weight_difference(a, b, [&](double share) { return goes_on = progress(kShareOfWeights * share); }));
  RecordingWriter writer(out.toStdString(), Durable::when_finished);
  begin(writer, pair.a(), a.notes());
  begin(writer, pair.b(), joinedNotes(b.notes(), opened.notes, read.notes));
  if (goes_on) writer.write(Marker{1, 0, "event", pair.weights().text()});
  std::int64_t done = 0;
  while (goes_on && done < pair.steps()) {
    CheckpointPair::Frames frames = pair.step();
    goes_on = progress(kShareOfWeights + (1 - kShareOfWeights) * (++done) / pair.steps());
    if (!goes_on) pair.show_specialisation(frames);
    const Frame both[] = {std::make_shared<const TelemetryFrame>(std::move(frames.a)),
                          std::make_shared<const TelemetryFrame>(std::move(frames.b))};
    writer.write(both);
  }
  writer.finish();
  return done > 0;
}

}  // namespace

bool isCheckpoint(const QString& path) {
  return is_checkpoint(checkpointFolder(path).toStdString()) &&
         (QFileInfo(path).isDir() || QFileInfo(path).fileName() == "config.json");
}

QString checkpointFolder(const QString& path) {
  return QFileInfo(path).isDir() ? path : QFileInfo(path).path();
}

std::vector<CheckpointFolder> checkpointsIn(const QString& folder) {
  std::vector<CheckpointFolder> found;
  for (const std::string& path : checkpoints_below(folder.toStdString(), kMaxCheckpoints)) {
    CheckpointFolder& model = found.emplace_back(CheckpointFolder{QString::fromStdString(path), 0, {}});
    for (const QFileInfo& file : QDir(model.path).entryInfoList({"*.safetensors"}, QDir::Files)) {
      model.bytes += file.size();
      model.last_change = std::max(model.last_change, file.lastModified());
    }
  }
  return found;
}

QString describeCheckpoint(const QString& folder) {
  const CheckpointModel model(folder.toStdString());
  const CheckpointTokenizer opened = open_checkpoint_tokenizer(folder.toStdString());
  QString notes;
  for (const std::string& note : joinedNotes(model.notes(), opened.notes, {}))
    notes += "\n" + QString::fromStdString(printable(note));
  const CheckpointConfig& config = model.config();
  const int length = TextSources().length;
  return QString(
             "%1: %2 layers, %3 with %4 experts, top %5\n"
             "%6 parameters, %7 on disk; %8 of memory for %9 tokens\n"
             "about %10 s for 1,000 tokens (estimated from one layer of each kind)")
      .arg(config.architecture)
      .arg(config.layers.size())
      .arg(model.moe_layers().size())
      .arg(config.experts)
      .arg(config.router.config.top_k)
      .arg(formatCount(model.parameters()), formatBytes(model.stored_bytes()),
           formatBytes(model.working_bytes(kSequences * length)))
      .arg(length)
      .arg(1000 * model.measured_seconds_per_token(), 0, 'g', 2)
      .append(notes);
}

bool runCheckpoint(const CheckpointTexts& request, const QString& out, const std::function<bool(double)>& progress) {
  if (!request.reference.isEmpty()) return runPair(request, out, progress);
  const CheckpointModel model(request.folder.toStdString());
  const CheckpointTokenizer opened = open_checkpoint_tokenizer(request.folder.toStdString());
  const TextSources sources = sourcesOf(request);
  const ReadTexts read = read_all(sources, &opened.tokenizer);
  const std::string name = QDir(request.folder).dirName().toStdString();
  CheckpointRun run(model, read.texts,
                    {.source = request.folder.toStdString(),
                     .texts = sources,
                     .sequences = kSequences,
                     .run_name = name,
                     .tokenizer = &opened.tokenizer});
  RecordingWriter writer(out.toStdString(), Durable::when_finished);
  begin(writer, run, joinedNotes(model.notes(), opened.notes, read.notes));
  std::int64_t done = 0;
  for (bool goes_on = progress(0); goes_on && done < run.steps();) {
    TelemetryFrame step = run.step();
    goes_on = progress((++done) / static_cast<double>(run.steps()));
    if (!goes_on) run.show_specialisation(step);
    const auto frame = std::make_shared<const TelemetryFrame>(std::move(step));
    writer.write({&frame, 1});
  }
  writer.finish();
  return done > 0;
}

}  // namespace moescope
